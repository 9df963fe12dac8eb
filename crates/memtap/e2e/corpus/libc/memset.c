// A memset of twelve bytes more than the block has.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(24)), *second = HIDE(malloc(24));
    memset(block, 0, HIDE(36)); // here
    SHOW(block);
    SHOW(second);
    _Exit(0);
}
