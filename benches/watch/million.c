// Touches two million ints again and again, or, with an argument, a few that lie on other pages.
#include <stdio.h>

static volatile int cells[2000000] __attribute__((aligned(4096)));
static volatile int others[4096] __attribute__((aligned(4096)));

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        for (int round = 0; round < 40000; round++)
            for (int i = 0; i < 4096; i++)
                others[i] += i;
    else
        for (int i = 0; i < 2000000; i++)
            cells[i] += i;
    printf("%d\n", argc > 1 ? others[7] : cells[7]);
    return 0;
}
