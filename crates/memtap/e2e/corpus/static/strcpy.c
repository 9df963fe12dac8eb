// A strcpy into a static buffer that is too short.
// command: errors
// expect: out_of_bounds
// flags: -U_FORTIFY_SOURCE
#include <string.h>
#include "../hide.h"

static char line[16], other[16];

int main(void)
{
    strcpy(HIDE((char *)line), HIDE((const char *)"a text of 16 or more")); // here
    return HIDE((char *)other)[3];
}
