// One of two strings that are compared was freed; the other one lies before it.
// stale: <freed:@second> by *
#include <stdlib.h>
#include <string.h>
#include "hidden.h"
__attribute__((noinline, noclone)) static char *first(void) { return malloc(24); }
__attribute__((noinline, noclone)) static char *second(void) { return malloc(24); }
int main(void)
{
    char *a = first(), *between = HIDDEN(malloc(24)), *b = second();
    memset(a, 'a', 24);
    a[20] = 0;
    memset(b, 'a', 24);
    b[20] = 0;
    free(HIDDEN(b));
    int (*volatile compare)(const char *, const char *) = strcmp;
    STORE_BYTE(between[0], 1);
    // The allocator's words are at the start of the free block.
    return compare(HIDDEN(a), HIDDEN(b)) == 0;
}
