// A memcpy writes one byte more than the block has.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

static char source[100];

int main(void)
{
    char *block = HIDE(malloc(24));
    memcpy(block, HIDE((char *)source), HIDE(25)); // here
    SHOW(block);
    free(block);
    return 0;
}
