// A strncpy fills the block and leaves no zero, and nobody needs one.
// command: errors
// expect: nothing
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(24));
    strncpy(block, HIDE((const char *)"a text that is longer than the block"), HIDE(24));
    int last = HIDE(block[23]);
    free(block);
    return last == 77;
}
