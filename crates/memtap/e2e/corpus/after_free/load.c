// Loads from a released block.
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
    long value = HIDE(block[5]); // here
    return value == 77;
}
