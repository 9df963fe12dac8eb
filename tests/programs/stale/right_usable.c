// Not a use after free: the bytes lie inside the usable sizes.
#include <malloc.h>
#include <stdlib.h>
#include "hidden.h"
int main(void)
{
    for (size_t len = 1; len < 200; len++) {
        char *before = malloc(len + 40);
        STORE_BYTE(before[0], 1);
        free(before);
        char *block = malloc(len);
        size_t usable = malloc_usable_size(block);
        block = HIDDEN(block);
        for (size_t i = 0; i < usable; i++)
            STORE_BYTE(block[i], 1);
        free(block);
    }
    return 0;
}
