// Static arrays that lie side by side, each used by loops from both ends and by pointers to their ends.
// command: errors
// expect: nothing
#include "../hide.h"

static volatile short first[13];
static volatile short second[13];
static volatile short third[13];

NOINLINE static int work(int count)
{
    int all = 0;
    for (volatile short *at = first, *end = first + count; at != end; at++)
        *at = 3;
    for (volatile short *at = second + count; at != second;)
        *--at = 4;
    for (int i = 0; i < count; i++)
        third[count - 1 - i] = first[i] + second[count - i - 1];
    for (int i = count; i > 0; i--)
        all += third[i - 1];
    return all;
}

int main(void)
{
    return work(HIDE(13)) == 77;
}
