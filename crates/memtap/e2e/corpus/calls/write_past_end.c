// A write takes more bytes than the block has.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../hide.h"

int main(void)
{
    int pipes[2];
    if (pipe(pipes) != 0)
        return 1;
    char *block = HIDE(malloc(24));
    memset(block, 'x', HIDE(24));
    long written = write(pipes[1], block, HIDE(32)); // here
    free(block);
    return written == 77;
}
