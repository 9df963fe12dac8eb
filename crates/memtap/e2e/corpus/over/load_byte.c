// Loads the byte right behind a block of 40.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(40));
    memset(block, 3, 40);
    size_t at = HIDE(40);
    int byte = HIDE(block[at]); // here
    SHOW(block);
    free(block);
    return byte == 77;
}
