// Hands bytes to write that were written.
// command: errors
// record: --flow full
// expect: nothing
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../hide.h"

int main(void)
{
    int pipes[2];
    if (pipe(pipes) != 0)
        return 1;
    char *block = HIDE(malloc(64));
    memset(block, 'x', HIDE(64));
    long written = write(pipes[1], block, HIDE(64));
    free(block);
    return written == 77;
}
