// The input is an argument of a printf with a format of its own.
// command: taint
// input: %d and %d
// expect: nothing
#include <stdio.h>
#include <unistd.h>
#include "../hide.h"

int main(void)
{
    char line[64] = {0};
    if (read(0, line, 60) < 4)
        return 1;
    printf(HIDE((const char *)"%s"), HIDE((char *)line));
    return 0;
}
