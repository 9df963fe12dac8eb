// An element of a map is read after it was erased.
// stale: <freed:@*> by main
#include <map>
#include "hidden.h"
struct large { int values[100]; };
int main()
{
    std::map<int, large> map;
    map[1].values[50] = 5;
    auto found = map.find(1);
    int *value = &found->second.values[50];
    map.erase(found);
    return *HIDDEN(value) != 5;
}
