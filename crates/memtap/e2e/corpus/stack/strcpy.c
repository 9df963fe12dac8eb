// A strcpy into a local array that is too short.
// command: errors
// expect: out_of_bounds
// flags: -fno-stack-protector -U_FORTIFY_SOURCE
#include <string.h>
#include "../hide.h"

NOINLINE static int copy(const char *text)
{
    char line[16];
    strcpy(line, text); // here
    return HIDE((char *)line)[3];
}

int main(void)
{
    return copy(HIDE((const char *)"a text of 16 or more")) == 77;
}
