// A block is copied after it was freed.
// stale: <freed:@make> by *
#include <stdlib.h>
#include <string.h>
#include "hidden.h"
static char kept[512];
__attribute__((noinline, noclone)) static char *make(void) { return malloc(1024); }
int main(void)
{
    char *block = make();
    memset(block, 1, 1024);
    free(HIDDEN(block));
    void *(*volatile copy)(void *, const void *, size_t) = memcpy;
    copy(kept, HIDDEN(block + 256), 512);
    return kept[100] != 1;
}
