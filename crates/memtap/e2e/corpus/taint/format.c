// The input is the format of a printf.
// command: taint
// input: %d and %d
// expect: format_string
#include <stdio.h>
#include <unistd.h>
#include "../hide.h"

int main(void)
{
    char line[64] = {0};
    if (read(0, line, 60) < 4)
        return 1;
    printf(HIDE((char *)line), 1, 2); // here
    return 0;
}
