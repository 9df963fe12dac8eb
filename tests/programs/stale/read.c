// A block is read after it was freed.
// stale: <freed:@make> by main loads=3
#include <stdlib.h>
#include "hidden.h"
__attribute__((noinline, noclone)) static int *make(void) { return malloc(4096); }
int main(void)
{
    int *block = make();
    STORE(block[100], 7);
    free(block);
    block = HIDDEN(block);
    int sum = 0;
    REPEAT(3) sum += LOAD(block[100]);
    return sum != 21;
}
