// A memcpy of the first half of a block to the second.
// command: errors
// expect: nothing
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(calloc(100, 1));
    memcpy(HIDE(block + 50), HIDE(block), HIDE(50));
    SHOW(block);
    free(block);
    return 0;
}
