// What exports of other tools' formats must hold: crates/memtap/e2e/tests/exports.rs counts it. Blocks are written and read byte by
// byte, and malloc's bytes are 1,716: 100 + 300 + 50 of one block that changes its size, 4 * 32, 3 * 16, 90, 1,000 that leak - and 0.
// build: -O1 -fno-optimize-sibling-calls -fno-inline -fno-builtin
// status: 0
#include <stdlib.h>
#include "access.h"

#define FUNCTION __attribute__((noinline, noclone))

static char shared[64];

FUNCTION void touch(char *at, int turns)
{
    for (int turn = 0; turn < turns; turn++) STORE_BYTE(at[turn], 1);
}

FUNCTION char *leaks(void)
{
    char *block = malloc(1000);
    touch(block, 10);
    return block;
}

FUNCTION void grows(void)
{
    char *block = malloc(100);
    touch(block, 100);
    block = realloc(block, 300);
    block = realloc(block, 50);
    free(block);
}

FUNCTION void small(void)
{
    for (int turn = 0; turn < 3; turn++) {
        char *block = malloc(16);
        touch(block, 4);
        free(block);
    }
    for (int turn = 0; turn < 4; turn++) free(calloc(4, 8));
    free(malloc(90));
    free(malloc(0));
}

static char *volatile kept;

int main(void)
{
    touch(shared, 64);
    kept = leaks();
    grows();
    small();
    return 0;
}
