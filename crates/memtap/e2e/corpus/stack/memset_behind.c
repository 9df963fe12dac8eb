// A memset of a local structure goes on behind it.
// command: errors
// expect: out_of_bounds
// flags: -fno-stack-protector -U_FORTIFY_SOURCE
#include <string.h>
#include "../hide.h"

struct cell {
    int weights[5];
};

NOINLINE static int clear(int count)
{
    struct cell cell;
    memset(HIDE(&cell), 1, count * sizeof(int)); // here
    return HIDE(&cell)->weights[2];
}

int main(void)
{
    return clear(HIDE(6)) == 77;
}
