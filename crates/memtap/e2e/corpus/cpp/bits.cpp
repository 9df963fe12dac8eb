// Vectors of bool, bit sets and arrays by value.
// command: errors
// record: --flow full
// expect: nothing
#include <array>
#include <bitset>
#include <vector>
#include "../hide.h"

int main()
{
    std::vector<bool> flags;
    std::bitset<200> set;
    for (int i = 0; i < 200; i++) {
        flags.push_back(i % 3 == 0);
        set[HIDE(i)] = flags[HIDE(i / 2)];
    }
    std::array<std::array<int, 4>, 3> table{};
    for (int i = 0; i < 12; i++)
        table[HIDE(i / 4)][HIDE(i % 4)] = i;
    int all = 0;
    for (bool flag : flags)
        if (flag)
            all = HIDE(all + 1);
    return all + set.count() + table[2][HIDE(3)] == 777;
}
