// Stores into the heap between blocks, far from each, where nothing was ever allocated.
// command: errors
// expect: out_of_bounds
// memtap misses: the access is further from any block than the length of an allocator's header
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(100));
    block[HIDE(20000)] = 1; // here
    SHOW(block);
    free(block);
    return 0;
}
