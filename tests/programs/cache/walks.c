// Walks over lines of 64 bytes, for a first level of 16 lines and a second one of 64, both without sets.
#include <stdlib.h>
#include "access.h"

struct line { long first; char rest[56]; } __attribute__((aligned(64)));
static struct line small[8], table[32], list_nodes[512];
static long array[512] __attribute__((aligned(64)));

// 8 lines, 10 times: the first time misses both levels.
static void __attribute__((noinline)) fits(void)
{
    for (long turn = 0; turn < 10; turn++)
        for (long i = 0; i < 8; i++)
            (void)LOAD(small[i].first);
}

// 32 lines, 3 times: always a miss of the first level, a miss of the second one the first time.
static void __attribute__((noinline)) fits_second(void)
{
    for (long turn = 0; turn < 3; turn++)
        for (long i = 0; i < 32; i++)
            STORE(table[i].first, i);
}

// 512 elements in 64 lines against 512 elements in 512 lines.
static void __attribute__((noinline)) walk_array(void)
{
    for (long i = 0; i < 512; i++)
        (void)LOAD(array[i]);
}

static void __attribute__((noinline)) walk_list(void)
{
    for (long i = 0; i < 512; i++)
        (void)LOAD(list_nodes[i * 5 % 512].first);
}

int main(void)
{
    fits();
    fits_second();
    walk_array();
    walk_list();
    return 0;
}
