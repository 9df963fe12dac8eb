// A smaller block takes the place of a freed one: the rest of it is still nobody's.
// stale: <freed:@make> by main loads=1
#include <stdlib.h>
#include "hidden.h"
__attribute__((noinline, noclone)) static char *make(void) { return malloc(3000); }
int main(void)
{
    char *block = make();
    char *after = HIDDEN(malloc(16));
    free(block);
    block = HIDDEN(block);
    char *small = malloc(40);
    if (small != block)
        return 1;
    for (int i = 0; i < 40; i++)
        STORE_BYTE(small[i], 1);
    char byte = LOAD_BYTE(block[1500]);
    STORE_BYTE(small[0], byte);
    free(small);
    free(HIDDEN(after));
    return 0;
}
