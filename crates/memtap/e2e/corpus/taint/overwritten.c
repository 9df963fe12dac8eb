// Input is overwritten before its memory is used as a size and a name.
// command: taint
// input: 0123456789
// expect: nothing
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../hide.h"

int main(void)
{
    char line[64] = {0};
    if (read(0, line, 60) < 4)
        return 1;
    memset(HIDE((char *)line), 0, sizeof line);
    strcpy(HIDE((char *)line), HIDE((const char *)"/nowhere"));
    int file = open(HIDE((char *)line), O_RDONLY);
    free(HIDE(malloc(HIDE((char *)line)[60])));
    return file == 77;
}
