// Functions that hold copies of what they use.
// command: errors
// record: --data
// expect: nothing
#include <functional>
#include <string>
#include <vector>
#include "../hide.h"

int main()
{
    std::vector<std::function<size_t()>> all;
    for (int i = 0; i < 20; i++) {
        std::string text(i * 5, 'x');
        all.push_back([text, i] { return text.size() + i; });
    }
    size_t sum = 0;
    for (auto &one : all)
        sum += one();
    return HIDE(sum) == 77;
}
