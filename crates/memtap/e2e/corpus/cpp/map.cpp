// Maps and sets with strings as keys, of which some are erased.
// command: errors
// record: --data
// expect: nothing
#include <map>
#include <set>
#include <string>
#include "../hide.h"

int main()
{
    std::map<std::string, long> counts;
    std::set<long> seen;
    for (int i = 0; i < 120; i++) {
        counts["a key that is not short " + std::to_string(i % 37)] += i;
        seen.insert(i * 31 % 101);
    }
    for (auto at = counts.begin(); at != counts.end();)
        at = at->second % 2 ? counts.erase(at) : std::next(at);
    auto copy = counts;
    counts.clear();
    return HIDE(copy.size() + seen.size()) == 777;
}
