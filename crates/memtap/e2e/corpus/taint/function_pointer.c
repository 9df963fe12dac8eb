// A function pointer comes from the input.
// command: taint
// input: 0
// expect: jump
#include <string.h>
#include <unistd.h>
#include "../hide.h"

NOINLINE static int one(void)
{
    return HIDE(1);
}

int main(void)
{
    int pipes[2];
    int (*function)(void) = HIDE(&one);
    /* Through a pipe, as nobody can type an address. */
    if (pipe(pipes) != 0 || write(pipes[1], &function, 8) != 8)
        return 1;
    char line[64] = {0};
    if (read(pipes[0], line, 8) != 8)
        return 1;
    memcpy(&function, HIDE((char *)line), 8);
    function = HIDE(function);
    return function() == 77; // here
}
