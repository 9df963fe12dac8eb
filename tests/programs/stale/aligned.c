// Blocks of the other functions that allocate.
// stale: <freed:@aligned> by main loads=1
// stale: <freed:@posix> by main loads=1
#include <stdlib.h>
#include "hidden.h"
__attribute__((noinline, noclone)) static char *aligned(void) { return aligned_alloc(256, 1024); }
__attribute__((noinline, noclone)) static char *posix(void)
{
    void *block = 0;
    return posix_memalign(&block, 64, 1024) ? 0 : block;
}
int main(void)
{
    char *a = aligned(), *b = posix();
    free(a);
    a = HIDDEN(a);
    (void)LOAD_BYTE(a[500]);
    free(b);
    b = HIDDEN(b);
    (void)LOAD_BYTE(b[500]);
    return 0;
}
