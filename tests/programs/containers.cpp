// Containers of the standard library: their blocks are named after the function that the allocation is inlined into.
// expect: <malloc@fill_vector> size=4 loads=50 stores=100
// alloc: malloc=103 frees=103
// stderr: 1225 5050 100
#include <algorithm>
#include <cstdio>
#include <map>
#include <vector>
#include "access.h"

#define FUNCTION __attribute__((noinline, noclone)) static

FUNCTION long fill_vector()
{
    std::vector<int> values;
    long sum = 0;
    values.reserve(100);
    int *data = values.data();
    REPEAT(100) STORE(data[i_], i_);
    REPEAT(50) sum += LOAD(data[i_]);
    return sum;
}

FUNCTION long fill_map()
{
    std::map<int, long> table;
    long sum = 0;
    for (int i = 1; i <= 100; i++)
        table[i] = i;
    for (auto &entry : table)
        sum += entry.second;
    return sum;
}

FUNCTION long sort_some()
{
    std::vector<int> values(100);
    int *copy = new int[100];
    for (int i = 0; i < 100; i++)
        copy[i] = values[i] = (i * 37) % 101;
    std::sort(values.begin(), values.end());
    std::sort(copy, copy + 100);
    long same = std::equal(values.begin(), values.end(), copy) ? 100 : 0;
    delete[] copy;
    return same;
}

int main()
{
    long a = fill_vector(), b = fill_map(), c = sort_some();
    fprintf(stderr, "%ld %ld %ld\n", a, b, c);
    return 0;
}
