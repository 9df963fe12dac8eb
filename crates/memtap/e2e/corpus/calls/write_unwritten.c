// Hands bytes that nobody wrote to write.
// command: errors
// record: --flow full
// expect: uninitialised
#include <stdlib.h>
#include <unistd.h>
#include "../hide.h"

int main(void)
{
    int pipes[2];
    if (pipe(pipes) != 0)
        return 1;
    char *block = HIDE(malloc(64));
    long written = write(pipes[1], block, HIDE(64)); // here
    free(block);
    return written == 77;
}
