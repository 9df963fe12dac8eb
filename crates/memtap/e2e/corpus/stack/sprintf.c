// A sprintf into a local array that is too short.
// command: errors
// expect: out_of_bounds
// flags: -fno-stack-protector -U_FORTIFY_SOURCE
#include <stdio.h>
#include "../hide.h"

NOINLINE static int print(const char *name, int number)
{
    char line[16];
    sprintf(HIDE((char *)line), "%s: %d", name, number); // here
    return HIDE((char *)line)[3];
}

int main(void)
{
    return print(HIDE((const char *)"a long name"), HIDE(1234)) == 77;
}
