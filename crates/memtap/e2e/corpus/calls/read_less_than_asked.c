// A read asks for more bytes than the block has, but there are fewer.
// command: errors
// expect: nothing
#include <stdlib.h>
#include <unistd.h>
#include "../hide.h"

int main(void)
{
    int pipes[2];
    if (pipe(pipes) != 0 || write(pipes[1], "0123456789", 10) != 10)
        return 1;
    char *block = HIDE(malloc(24));
    long got = read(pipes[0], block, HIDE(24));
    SHOW(block);
    free(block);
    return got == 77;
}
