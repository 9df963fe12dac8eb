// A strncpy pads with zeros beyond the end of the block.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(24));
    strncpy(block, HIDE((const char *)"short"), HIDE(32)); // here
    SHOW(block);
    _Exit(0);
}
