// Stores eight bytes at offset 20 of a block of 24.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(24));
    long *at = HIDE((long *)(block + 20));
    long before = 5;
    *(volatile long *)at = before; // here
    SHOW(block);
    _Exit(0);
}
