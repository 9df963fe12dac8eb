// A read gives more bytes than the block has.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include <unistd.h>
#include "../hide.h"

int main(void)
{
    int pipes[2];
    if (pipe(pipes) != 0 || write(pipes[1], "0123456789012345678901234567890123456789", 40) != 40)
        return 1;
    char *block = HIDE(malloc(24));
    long got = read(pipes[0], block, HIDE(28)); // here
    SHOW(block);
    _Exit(got == 77);
}
