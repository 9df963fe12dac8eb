// A sprintf writes more than the block has room for.
// command: errors
// expect: out_of_bounds
#include <stdio.h>
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(24));
    sprintf(block, HIDE((const char *)"%d and %s"), HIDE(12345), HIDE((const char *)"a text of words")); // here
    SHOW(block);
    free(block);
    return 0;
}
