// Only a pointer into the middle of a block is left.
// command: errors
// record: --data
// expect: leak possible
#include <stdlib.h>
#include "../hide.h"

static char *volatile middle;

int main(void)
{
    char *block = HIDE(malloc(300)); // here
    middle = block + 120;
    block = HIDE(NULL);
    SHOW(block);
    return 0;
}
