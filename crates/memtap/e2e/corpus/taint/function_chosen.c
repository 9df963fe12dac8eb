// The input chooses a function from a table after it was checked.
// command: taint
// input: 1
// expect: nothing
#include <unistd.h>
#include "../hide.h"

NOINLINE static int one(void)
{
    return HIDE(1);
}

NOINLINE static int two(void)
{
    return HIDE(2);
}

static int (*const table[2])(void) = {one, two};

int main(void)
{
    char line[64] = {0};
    if (read(0, line, 2) < 1)
        return 1;
    int at = line[0] == '1' ? HIDE(1) : HIDE(0);
    return table[at]() == 77;
}
