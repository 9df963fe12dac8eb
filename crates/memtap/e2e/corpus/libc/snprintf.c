// A snprintf that cuts what it writes to the block.
// command: errors
// expect: nothing
#include <stdio.h>
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(24));
    int len = snprintf(block, HIDE(24), HIDE((const char *)"%d and %s"), HIDE(12345), HIDE((const char *)"a text of words"));
    free(block);
    return len == 77;
}
