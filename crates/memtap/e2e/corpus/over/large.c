// Stores behind a block so large that malloc maps it.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(1000001));
    block[HIDE(1000000)] = 1;
    block = HIDE(block);
    block[HIDE(1000001)] = 1; // here
    SHOW(block);
    free(block);
    return 0;
}
