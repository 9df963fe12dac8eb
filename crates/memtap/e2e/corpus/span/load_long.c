// Loads eight bytes at offset 20 of a block of 24.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(24));
    memset(block, 1, 24);
    volatile long *at = HIDE((long *)(block + 20));
    long value = *at; // here
    free(block);
    return value == 77;
}
