// Stores into the top chunk, eight bytes behind the end of the last block.
// command: errors
// expect: out_of_bounds
// memtap misses: the access is further from any block than the length of an allocator's header
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    long *block = HIDE(malloc(3000));
    block[0] = 1;
    block[HIDE(376)] = 1; // here
    SHOW(block);
    free(block);
    return 0;
}
