// A strdup of a block without a zero.
// command: errors
// expect: out_of_bounds
// memtap may miss: of some processors' copying functions the loads of whole vectors say nothing, nor do those of a library without symbols
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(24));
    memset(block, 'x', HIDE(24));
    char *copy = HIDE(strdup(HIDE(block))); // here
    free(block);
    free(copy);
    return 0;
}
