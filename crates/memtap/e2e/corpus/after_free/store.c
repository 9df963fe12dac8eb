// Stores into a released block.
// command: errors
// expect: use_after_free
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    long *block = HIDE(malloc(80));
    block[5] = 3;
    SHOW(block);
    free(block);
    block = HIDE(block);
    block[5] = 4; // here
    SHOW(block);
    return 0;
}
