// Asks realloc to grow a released block.
// command: errors
// expect: invalid_free
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(100));
    free(block);
    block = HIDE(realloc(HIDE(block), 200)); // here
    SHOW(block);
    return 0;
}
