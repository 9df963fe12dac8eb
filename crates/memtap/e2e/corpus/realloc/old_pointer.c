// Uses the old pointer after realloc has moved the block.
// command: errors
// expect: use_after_free
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    long *old = HIDE(malloc(64));
    void *keeper = HIDE(malloc(64));
    old[3] = 1;
    SHOW(old);
    long *block = HIDE(realloc(old, 4000));
    old = HIDE(old);
    old[3] = 2; // here
    SHOW(old);
    free(block);
    free(keeper);
    return 0;
}
