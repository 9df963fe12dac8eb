// A hash table that grows.
// command: errors
// record: --data
// expect: nothing
#include <string>
#include <unordered_map>
#include <vector>
#include "../hide.h"

int main()
{
    std::unordered_map<std::string, std::vector<int>> table;
    for (int i = 0; i < 200; i++)
        table[std::to_string(i % 50)].push_back(i);
    table.erase("7");
    table.rehash(1000);
    return HIDE(table.size()) == 77;
}
