// Input is read into a block of a constant size.
// command: taint
// input: 0123456789
// expect: nothing
#include <stdlib.h>
#include <unistd.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(HIDE(100)));
    long got = read(0, block, 100);
    free(block);
    return got == 77;
}
