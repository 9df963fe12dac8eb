// A released block is given again, and its old owner stores into it.
// command: errors
// expect: use_after_free
// memtap misses: the memory was allocated again, so the store goes to the new block
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    long *old = HIDE(malloc(40));
    *old = 1;
    SHOW(old);
    free(old);
    old = HIDE(old);
    long *again = HIDE(malloc(40));
    *again = 2;
    *HIDE(old) = 3; // here
    long value = HIDE(*again);
    free(again);
    return value == 77;
}
