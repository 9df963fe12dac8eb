// Stores one byte before a block.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(24));
    long at = HIDE(-1l);
    char before = HIDE(block[at]); // here
    block[at] = before; // here
    SHOW(block);
    free(block);
    return 0;
}
