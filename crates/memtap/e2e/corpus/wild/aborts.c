// Ends by abort, and by no access.
// command: errors
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(10));
    block[3] = 1;
    SHOW(block);
    free(block);
    abort();
}
