// The input is an index that is not checked.
// command: taint
// input: zzzz
// expect: index
// memtap misses: taint is not followed through addresses
#include <unistd.h>
#include "../hide.h"

static int table[128];

int main(void)
{
    char line[64] = {0};
    if (read(0, line, 60) < 4)
        return 1;
    *HIDE(&table[line[0] & 127]) = 1; // here
    return table[3] == 77;
}
