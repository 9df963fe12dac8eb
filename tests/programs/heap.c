// Heap blocks: one function per kind of call, so that the forged names tell them apart.
// expect: <malloc@by_malloc> size=4 loads=10 stores=20
// expect: <calloc@by_calloc> size=8 loads=30 stores=5
// expect: <malloc@by_realloc> size=1 stores=16
// expect: <reallo@by_realloc> size=1 loads=16
// expect: <reallo@by_reallocarray> size=8 stores=9
// expect: <malloc@by_posix_memalign> size=8 stores=1
// expect: <malloc@by_aligned_alloc> size=8 stores=2
// expect: <malloc@by_memalign> size=8 stores=3
// expect: <malloc@by_valloc> size=8 stores=4
// expect: <malloc@in_a_loop> size=4 stores=15
// alloc: malloc=11 calloc=1 realloc=2 frees=12
// stderr: 45 0 120 0 0 0
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include "access.h"

#define FUNCTION __attribute__((noinline, noclone)) static

FUNCTION long by_malloc(void)
{
    int *block = malloc(80);
    long sum = 0;
    REPEAT(20) STORE(block[i_], i_);
    REPEAT(10) sum += LOAD(block[i_]);
    free(block);
    return sum;
}

FUNCTION long by_calloc(void)
{
    long *block = calloc(30, 8), sum = 0;
    REPEAT(30) sum += LOAD(block[i_]);
    REPEAT(5) STORE(block[i_], 1);
    free(block);
    return sum;
}

FUNCTION long by_realloc(void)
{
    char *block = malloc(16);
    long sum = 0;
    REPEAT(16) STORE_BYTE(block[i_], i_);
    block = realloc(block, 5000);
    REPEAT(16) sum += LOAD_BYTE(block[i_]);
    free(block);
    return sum;
}

FUNCTION void by_reallocarray(void)
{
    long *block = reallocarray(0, 9, 8);
    REPEAT(9) STORE(block[i_], i_);
    free(block);
}

FUNCTION long by_posix_memalign(void)
{
    void *block = 0;
    if (posix_memalign(&block, 256, 64))
        abort();
    STORE(*(long *)block, 1);
    long wrong = (unsigned long)block % 256;
    free(block);
    return wrong;
}

FUNCTION long by_aligned_alloc(void)
{
    long *block = aligned_alloc(128, 256);
    REPEAT(2) STORE(block[i_], 1);
    long wrong = (unsigned long)block % 128;
    free(block);
    return wrong;
}

FUNCTION long by_memalign(void)
{
    long *block = memalign(4096, 100);
    REPEAT(3) STORE(block[i_], 1);
    long wrong = (unsigned long)block % 4096;
    free(block);
    return wrong;
}

FUNCTION void by_valloc(void)
{
    long *block = valloc(100);
    REPEAT(4) STORE(block[i_], 1);
    free(block);
}

FUNCTION void in_a_loop(void)
{
    int *blocks[5];
    for (int k = 0; k < 5; k++) {
        blocks[k] = malloc(64);
        REPEAT(3) STORE(blocks[k][i_], k);
    }
    for (int k = 0; k < 4; k++)
        free(blocks[k]);
}

int main(void)
{
    long a = by_malloc(), b = by_calloc(), c = by_realloc();
    by_reallocarray();
    long d = by_posix_memalign(), e = by_aligned_alloc(), f = by_memalign();
    by_valloc();
    in_a_loop();
    fprintf(stderr, "%ld %ld %ld %ld %ld %ld\n", a, b, c, d, e, f);
    return 0;
}
