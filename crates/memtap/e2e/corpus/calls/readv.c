// A readv into two blocks, which both have room.
// command: errors
// expect: nothing
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>
#include "../hide.h"

int main(void)
{
    int pipes[2];
    if (pipe(pipes) != 0 || write(pipes[1], "01234567890123456789", 20) != 20)
        return 1;
    char *a = HIDE(malloc(7)), *b = HIDE(malloc(13));
    struct iovec parts[] = {{a, 7}, {b, 13}};
    long got = readv(pipes[0], parts, 2);
    free(a);
    free(b);
    return got == 77;
}
