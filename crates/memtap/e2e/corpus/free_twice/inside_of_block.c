// Releases a pointer into the middle of a block.
// command: errors
// expect: invalid_free
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(100));
    char *middle = HIDE(block + 16);
    free(middle); // here
    return 0;
}
