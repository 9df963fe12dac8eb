// Stores into the first and the last byte of a block.
// command: errors
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(24));
    size_t at = HIDE(23);
    block[0] = block[at] = 1;
    SHOW(block);
    free(block);
    return 0;
}
