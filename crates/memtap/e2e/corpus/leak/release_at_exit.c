// A block is released by a function that runs at exit.
// command: errors
// record: --data
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

static char *volatile block;

static void release(void)
{
    free(block);
    block = NULL;
}

int main(void)
{
    atexit(release);
    block = malloc(200);
    block[3] = 1;
    return 0;
}
