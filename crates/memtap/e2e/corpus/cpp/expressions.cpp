// Regular expressions of the C++ library.
// command: errors
// record: --data
// expect: nothing
#include <regex>
#include <string>
#include "../hide.h"

int main()
{
    std::regex expression("([a-z]+)=([0-9]+)");
    std::string text = "a=1, second=22, and third=333";
    size_t all = 0;
    for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at)
        all += (*at)[2].str().size();
    return HIDE(all) == 77;
}
