// A static executable of C++: its allocator is the C library's, linked into it.
// build: -static
// translate: only
// lackey: no
// expect: <malloc@by_malloc> size=4 loads=10 stores=20
// expect: <calloc@by_calloc> size=4 loads=5
// expect: <reallo@grown> size=4 stores=7
// expect: <malloc@by_new> size=4 stores=3
// expect: <malloc@aligned> size=4 stores=9
// stdout: caught
#include <stdio.h>
#include <stdlib.h>
#include <new>
#include "access.h"

#define FUNCTION __attribute__((noinline, noclone))

typedef int number;

FUNCTION static number *by_malloc(void) { return (number *)malloc(40); }
FUNCTION static number *by_calloc(void) { return (number *)calloc(5, 4); }
FUNCTION static number *grown(number *old) { return (number *)realloc(old, 4000); }
FUNCTION static number *by_new(void) { return (number *)operator new[](12); }
FUNCTION static number *aligned(void)
{
    void *block;
    return posix_memalign(&block, 256, 36) ? NULL : (number *)block;
}

static void fill(number *numbers, int count)
{
    for (int i = 0; i < count; i++) STORE(numbers[i], i);
}
static void read(number *numbers, int count)
{
    for (int i = 0; i < count; i++) (void)LOAD(numbers[i]);
}

int main(void)
{
    number *a = by_malloc();
    fill(a, 10);
    fill(a, 10);
    read(a, 10);
    number *b = by_calloc();
    read(b, 5);
    number *c = grown(a);
    fill(c, 7);
    try {
        (void)operator new(size_t(1) << 60);
    } catch (std::bad_alloc &) {
        puts("caught");
    }
    number *d = by_new();
    fill(d, 3);
    number *e = aligned();
    fill(e, 9);
    free(b);
    free(c);
    operator delete[](d);
    free(e);
    return 0;
}
