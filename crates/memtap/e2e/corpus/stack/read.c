// A read into a local array that is too short.
// command: errors
// expect: out_of_bounds
// flags: -fno-stack-protector -U_FORTIFY_SOURCE
#include <unistd.h>
#include "../hide.h"

NOINLINE static long get(int from, long len)
{
    char line[16];
    long got = read(from, line, len); // here
    return got + HIDE((char *)line)[3];
}

int main(void)
{
    int pipes[2];
    if (pipe(pipes) != 0 || write(pipes[1], "01234567890123456789", 20) != 20)
        return 1;
    return get(pipes[0], HIDE(20)) == 77;
}
