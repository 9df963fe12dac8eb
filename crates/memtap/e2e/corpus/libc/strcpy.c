// A strcpy of a string that is as long as the block, so its zero lies behind.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(24));
    strcpy(block, HIDE((const char *)"123456789012345678901234")); // here
    SHOW(block);
    free(block);
    return 0;
}
