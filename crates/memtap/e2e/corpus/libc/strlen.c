// A strlen of a block without a zero.
// command: errors
// expect: out_of_bounds
// memtap misses: loads by C library functions past the end of a block are not reported if they are whole vectors
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(24));
    memset(block, 'x', HIDE(24));
    size_t len = strlen(HIDE(block)); // here
    free(block);
    return len == 77;
}
