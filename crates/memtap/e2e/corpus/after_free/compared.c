// A pointer to a released block is compared; the block itself is not used.
// command: errors
// expect: nothing
#include <stdint.h>
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(40));
    uintptr_t address = (uintptr_t)block;
    free(block);
    return HIDE(address) == 77;
}
