// The same by memmove, which may overlap.
// command: errors
// expect: nothing
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(calloc(100, 1));
    memmove(HIDE(block), HIDE(block + 1), HIDE(99));
    memmove(HIDE(block + 8), HIDE(block), HIDE(64));
    SHOW(block);
    free(block);
    return 0;
}
