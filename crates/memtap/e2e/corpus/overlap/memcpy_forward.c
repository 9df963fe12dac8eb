// A memcpy whose ends overlap.
// command: errors
// expect: overlap
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(calloc(100, 1));
    memcpy(HIDE(block + 8), HIDE(block), HIDE(64)); // here
    SHOW(block);
    free(block);
    return 0;
}
