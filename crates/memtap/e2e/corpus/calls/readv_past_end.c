// A readv into two blocks, the second of which is too small.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>
#include "../hide.h"

int main(void)
{
    int pipes[2];
    if (pipe(pipes) != 0 || write(pipes[1], "0123456789012345678901234567890123456789", 40) != 40)
        return 1;
    char *a = HIDE(malloc(7)), *b = HIDE(malloc(24));
    struct iovec parts[] = {{a, 7}, {b, 28}};
    long got = readv(pipes[0], parts, 2); // here
    SHOW(b);
    _Exit(got == 77);
}
