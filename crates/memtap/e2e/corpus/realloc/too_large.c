// A realloc that fails leaves the block as it was.
// command: errors
// expect: nothing
#include <stdint.h>
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    long *block = HIDE(malloc(80));
    block[9] = 3;
    SHOW(block);
    long *larger = HIDE(realloc(block, HIDE((size_t)PTRDIFF_MAX)));
    if (larger)
        return 1;
    block[9] = 4;
    SHOW(block);
    free(block);
    return 0;
}
