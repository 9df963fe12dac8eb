// The old place of a block that realloc moved.
// stale: <freed:@make> by main loads=1
#include <stdlib.h>
#include "hidden.h"
__attribute__((noinline, noclone)) static int *make(void) { return malloc(1000); }
int main(void)
{
    int *block = make();
    STORE(block[100], 5);
    int *after = HIDDEN(malloc(1000)); // So that it can't grow where it is.
    int *grown = realloc(HIDDEN(block), 100000);
    block = HIDDEN(block);
    int old = LOAD(block[100]);
    int same = LOAD(grown[100]);
    free(grown);
    free(HIDDEN(after));
    return old != 5 || same != 5;
}
