// A static buffer is filled by functions of the C library to its end.
// command: errors
// expect: nothing
#include <stdio.h>
#include <string.h>
#include "../hide.h"

static char line[32];

int main(void)
{
    snprintf(HIDE((char *)line), sizeof line, HIDE((const char *)"%s"), HIDE((const char *)"a text that is longer than the static buffer"));
    size_t len = strlen(HIDE((char *)line));
    memset(HIDE((char *)line), 0, sizeof line);
    return len == 77;
}
