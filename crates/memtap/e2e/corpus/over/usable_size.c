// Uses what the allocator rounded up to, after it has asked for it.
// command: errors
// expect: nothing
#include <malloc.h>
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(33));
    size_t usable = malloc_usable_size(block);
    for (size_t i = 0; i < usable; i++)
        block[i] = 1;
    SHOW(block);
    free(block);
    return 0;
}
