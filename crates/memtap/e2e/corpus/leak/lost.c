// The only pointer to a block is overwritten.
// command: errors
// record: --data
// expect: leak definite
#include <stdlib.h>
#include "../hide.h"

static char *volatile block;

int main(void)
{
    block = malloc(100); // here
    block = malloc(50);
    free(block);
    block = NULL;
    return 0;
}
