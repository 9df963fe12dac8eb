// Optional values, variants and pairs of strings.
// command: errors
// record: --data
// expect: nothing
#include <optional>
#include <string>
#include <variant>
#include <vector>
#include "../hide.h"

int main()
{
    std::vector<std::variant<long, std::string, std::optional<std::string>>> all;
    for (int i = 0; i < 30; i++) {
        if (i % 3 == 0)
            all.emplace_back(long(i));
        else if (i % 3 == 1)
            all.emplace_back(std::string(40, 'x'));
        else
            all.emplace_back(std::optional<std::string>(std::string(i, 'y')));
    }
    all[4] = 3l;
    return HIDE(all.size()) == 77;
}
