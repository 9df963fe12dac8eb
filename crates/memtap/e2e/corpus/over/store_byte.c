// Stores one byte right behind a block of 24.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(24));
    size_t at = HIDE(24);
    block[at] = 1; // here
    SHOW(block);
    free(block);
    return 0;
}
