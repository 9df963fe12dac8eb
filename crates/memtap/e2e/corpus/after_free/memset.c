// Fills a released block by memset.
// command: errors
// expect: use_after_free
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(HIDE(200)));
    free(block);
    block = HIDE(block);
    memset(block, 1, HIDE(200)); // here
    SHOW(block);
    return 0;
}
