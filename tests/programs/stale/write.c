// A block is written after it was freed.
// stale: <freed:@make> by main stores=2
#include <stdlib.h>
#include "hidden.h"
__attribute__((noinline, noclone)) static int *make(void) { return calloc(64, 64); }
int main(void)
{
    int *block = make();
    free(block);
    block = HIDDEN(block);
    STORE(block[100], 1);
    STORE(block[101], 2);
    return 0;
}
