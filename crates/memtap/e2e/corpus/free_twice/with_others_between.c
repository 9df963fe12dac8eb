// Releases a block, then another one, then the first again, which the C library does not notice.
// command: errors
// expect: invalid_free
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    /* Too large for the cache of a thread, small enough for the list that only looks at its head. */
    void *full[7];
    for (int i = 0; i < 7; i++)
        full[i] = HIDE(malloc(40));
    char *a = HIDE(malloc(40)), *b = HIDE(malloc(40));
    for (int i = 0; i < 7; i++)
        free(full[i]);
    free(a);
    free(b);
    a = HIDE(a);
    free(a); // here
    _Exit(0);
}
