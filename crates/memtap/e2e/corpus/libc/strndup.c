// A strndup of a block without a zero, for as long as the block is.
// command: errors
// expect: nothing
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(24));
    memset(block, 'x', HIDE(24));
    char *copy = HIDE(strndup(HIDE(block), HIDE(24)));
    free(block);
    free(copy);
    return 0;
}
