// The allocator gives the same address again and again, and each block is released once.
// command: errors
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    for (int i = 0; i < 50; i++) {
        char *block = HIDE(malloc(24 + i % 3));
        block[0] = i;
        SHOW(block);
        free(block);
    }
    return 0;
}
