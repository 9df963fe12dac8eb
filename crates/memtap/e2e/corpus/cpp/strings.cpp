// Strings that are short, long, joined, cut and moved.
// command: errors
// record: --data
// expect: nothing
#include <string>
#include "../hide.h"

int main()
{
    std::string all;
    for (int i = 0; i < 40; i++) {
        std::string text = "string number " + std::to_string(i);
        text += std::string(i, 'x');
        std::string other = std::move(text);
        all += other.substr(other.size() / 2);
        all.erase(0, 3).insert(1, other.c_str());
    }
    all.shrink_to_fit();
    return HIDE(all.find("yz")) == 77;
}
