// An allocator of the program's own keeps a size before each part that it gives: all in one block.
// command: errors
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

NOINLINE static void *give(size_t size)
{
    size_t *block = malloc(size + 16);
    block[0] = size;
    return block + 2;
}

NOINLINE static size_t size_of(void *part)
{
    return ((size_t *)part)[-2];
}

int main(void)
{
    char *part = HIDE(give(HIDE(30)));
    for (size_t i = 0; i < size_of(part); i++)
        part[i] = 1;
    SHOW(part);
    free((size_t *)part - 2);
    return 0;
}
