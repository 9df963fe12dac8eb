// Arrays of variable length and memory of alloca, used to their ends.
// command: errors
// expect: nothing
#include <alloca.h>
#include <string.h>
#include "../hide.h"

NOINLINE static int fill(int len)
{
    volatile int numbers[len];
    char *more = HIDE(alloca(len));
    for (int i = 0; i < len; i++)
        numbers[i] = i;
    memset(more, 1, len);
    return numbers[len - 1] + HIDE(more[len - 1]);
}

int main(void)
{
    int all = 0;
    for (int len = 1; len < 70; len += 5)
        all += fill(HIDE(len));
    return all == 77;
}
