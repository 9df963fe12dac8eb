// Sorts, partitions and merges vectors, with a buffer of the library's own.
// command: errors
// record: --data
// expect: nothing
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>
#include "../hide.h"

int main()
{
    std::vector<std::string> names;
    for (int i = 0; i < 150; i++)
        names.push_back("name " + std::to_string(i * 7919 % 151));
    std::stable_sort(names.begin(), names.end());
    std::vector<int> numbers(333);
    std::iota(numbers.begin(), numbers.end(), 0);
    std::rotate(numbers.begin(), numbers.begin() + 100, numbers.end());
    std::inplace_merge(numbers.begin(), numbers.begin() + 233, numbers.end());
    std::nth_element(numbers.begin(), numbers.begin() + 50, numbers.end());
    auto end = std::remove_if(numbers.begin(), numbers.end(), [](int n) { return n % 3 == 0; });
    numbers.erase(end, numbers.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return HIDE(names.size() + numbers.size()) == 77;
}
