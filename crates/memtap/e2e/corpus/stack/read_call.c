// A read into a local array that is too short for what comes.
// command: errors
// expect: out_of_bounds
// flags: -fno-stack-protector -U_FORTIFY_SOURCE
#include <unistd.h>
#include "../hide.h"

NOINLINE static int fetch(int from, int len)
{
    char line[16];
    if (read(from, HIDE((char *)line), len) != len) // here
        return 1;
    return HIDE((char *)line)[3] == 77;
}

int main(void)
{
    int ends[2];
    if (pipe(ends) != 0 || write(ends[1], "a text of 16 or more", 20) != 20)
        return 1;
    return fetch(ends[0], HIDE(20));
}
