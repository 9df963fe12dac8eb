// Asks realloc to grow what is no block.
// command: errors
// expect: invalid_free
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(100));
    block = HIDE(realloc(HIDE(block + 32), 200)); // here
    SHOW(block);
    return 0;
}
