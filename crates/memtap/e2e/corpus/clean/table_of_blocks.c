// A function whose local array holds blocks releases and allocates between its accesses to it, and a handler of signals has an array, too.
// command: errors
// expect: nothing
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include "../hide.h"

static volatile long handled;

static void handle(int signal)
{
    volatile long seen[8];
    for (int i = 0; i < 8; i++)
        seen[i] = signal + i;
    for (int i = 0; i < 8; i++)
        handled += seen[i];
}

NOINLINE static unsigned turn_over(int turns)
{
    char *blocks[64] = {0};
    unsigned number = 12345;
    for (int i = 0; i < turns; i++) {
        number = number * 1103515245 + 12345;
        unsigned at = number >> 26;
        free(blocks[at]);
        blocks[at] = HIDE(malloc(1 + at));
        blocks[at][at] = i;
        if (i % 32 == 0)
            raise(SIGUSR1);
    }
    for (int i = 0; i < 64; i++)
        free(blocks[i]);
    return number;
}

int main(void)
{
    char *own[8] = {0};
    signal(SIGUSR1, handle);
    for (int i = 0; i < 8; i++) {
        own[i] = malloc(10 + i);
        *HIDE(own[i]) = turn_over(40);
    }
    for (int i = 0; i < 8; i++)
        free(own[HIDE(i)]);
    printf("%ld\n", handled);
    return 0;
}
