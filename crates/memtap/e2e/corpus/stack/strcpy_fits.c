// A strcpy into a local array that has just enough room.
// command: errors
// expect: nothing
#include <string.h>
#include "../hide.h"

NOINLINE static int copy(const char *text)
{
    char line[16];
    strcpy(line, text);
    return HIDE((char *)line)[3];
}

int main(void)
{
    return copy(HIDE((const char *)"a text, 15 long")) == 77;
}
