// The end of a block that realloc made smaller where it is. What was rounded up is its own.
// stale: <freed:@make> by main loads=1
#include <malloc.h>
#include <stdlib.h>
#include "hidden.h"
__attribute__((noinline, noclone)) static char *make(void) { return malloc(2000); }
int main(void)
{
    char *block = make();
    char *after = HIDDEN(malloc(16));
    block = realloc(block, 100);
    size_t usable = malloc_usable_size(block);
    block = HIDDEN(block);
    char sum = 0;
    for (size_t i = 100; i < usable; i++)
        sum += LOAD_BYTE(block[i]);
    // A free block keeps words of the allocator at its start.
    sum += LOAD_BYTE(block[1000]);
    STORE_BYTE(block[0], sum);
    free(block);
    free(HIDDEN(after));
    return 0;
}
