// Releases a block twice.
// command: errors
// expect: invalid_free
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(24));
    free(block);
    block = HIDE(block);
    free(block); // here
    return 0;
}
