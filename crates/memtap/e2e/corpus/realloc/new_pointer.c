// Uses the new pointer after realloc has moved the block.
// command: errors
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    long *block = HIDE(malloc(64));
    void *keeper = HIDE(malloc(64));
    block[3] = 1;
    SHOW(block);
    block = HIDE(realloc(block, 4000));
    block[3] = 2;
    block[HIDE(499)] = 3;
    SHOW(block);
    free(block);
    free(keeper);
    return 0;
}
