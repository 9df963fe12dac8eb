// A read into a released block.
// command: errors
// expect: use_after_free
#include <stdlib.h>
#include <unistd.h>
#include "../hide.h"

int main(void)
{
    int pipes[2];
    if (pipe(pipes) != 0 || write(pipes[1], "0123456789", 10) != 10)
        return 1;
    char *block = HIDE(malloc(2400));
    free(block);
    long got = read(pipes[0], HIDE(block) + 100, HIDE(10)); // here
    return got == 77;
}
