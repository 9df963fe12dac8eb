// Uses the far end of what realloc took away when it made the block smaller.
// command: errors
// expect: use_after_free
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(200));
    block[199] = 1;
    SHOW(block);
    block = HIDE(realloc(block, 40));
    block[HIDE(180)] = 1; // here
    SHOW(block);
    free(block);
    return 0;
}
