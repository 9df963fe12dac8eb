// Stores 400 bytes behind the last block of the heap.
// command: errors
// expect: out_of_bounds
// memtap misses: the access is further from any block than the length of an allocator's header
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(24));
    block[HIDE(424)] = 1; // here
    SHOW(block);
    free(block);
    return 0;
}
