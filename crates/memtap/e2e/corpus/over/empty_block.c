// Stores into a block of no bytes.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(HIDE(0)));
    block[0] = 1; // here
    SHOW(block);
    free(block);
    return 0;
}
