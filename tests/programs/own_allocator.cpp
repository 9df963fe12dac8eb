// Allocators that are linked into the program, in a static array: one under the C library's names, with operators of its own, and one under a
// prefix. What they do to their own memory is part of their events.
// build: -O1 -fno-builtin -fno-exceptions
// translate: only
// lackey: no
// expect: <malloc@by_malloc> size=4 loads=10 stores=20
// expect: <calloc@by_calloc> size=4 loads=5
// expect: <reallo@grown> size=4 stores=7
// expect: <malloc@by_new> size=4 stores=3
// expect: <malloc@of_the_other> size=4 stores=4
// expect: <calloc@zeros_of_the_other> size=4 loads=6
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <new>
#include "access.h"

#define FUNCTION __attribute__((noinline, noclone))

static char arena[1 << 20];
static size_t used;

// Each block has its size before it.
static void *take(size_t bytes)
{
    char *block = arena + used + 16;
    used += (bytes + 31) & ~size_t(15);
    *(size_t *)(block - 16) = bytes;
    return block;
}

extern "C" {
FUNCTION void *malloc(size_t bytes) { return take(bytes); }
FUNCTION void free(void *block) { (void)block; }
FUNCTION void *calloc(size_t count, size_t bytes) { return memset(malloc(count * bytes), 0, count * bytes); }
FUNCTION void *realloc(void *old, size_t bytes)
{
    void *block = malloc(bytes);
    return old ? memcpy(block, old, ((size_t *)old)[-2] < bytes ? ((size_t *)old)[-2] : bytes) : block;
}
FUNCTION void *_rjem_mallocx(size_t bytes, int flags)
{
    void *block = take(bytes);
    return flags & 0x40 ? memset(block, 0, bytes) : block;
}
FUNCTION void _rjem_sdallocx(void *block, size_t bytes, int flags) { (void)block, (void)bytes, (void)flags; }
}
FUNCTION void *operator new(size_t bytes) { return take(bytes); }
FUNCTION void operator delete(void *block) noexcept { (void)block; }
FUNCTION void operator delete(void *block, size_t) noexcept { (void)block; }

typedef int number;

FUNCTION static number *by_malloc(void) { return (number *)malloc(40); }
FUNCTION static number *by_calloc(void) { return (number *)calloc(5, 4); }
FUNCTION static number *grown(number *old) { return (number *)realloc(old, 4000); }
FUNCTION static number *by_new(void) { return (number *)operator new(12); }
FUNCTION static number *of_the_other(void) { return (number *)_rjem_mallocx(16, 0); }
FUNCTION static number *zeros_of_the_other(void) { return (number *)_rjem_mallocx(24, 0x40); }

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
    number *d = by_new();
    fill(d, 3);
    number *e = of_the_other();
    fill(e, 4);
    number *f = zeros_of_the_other();
    read(f, 6);
    free(b);
    free(c);
    operator delete(d);
    _rjem_sdallocx(e, 16, 0);
    return 0;
}
