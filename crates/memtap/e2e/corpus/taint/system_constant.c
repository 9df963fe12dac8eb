// Input is read, and a constant command is given to the shell.
// command: taint
// input: true
// expect: nothing
#include <stdlib.h>
#include <unistd.h>
#include "../hide.h"

int main(void)
{
    char line[64] = {0};
    if (read(0, line, 60) < 4)
        return 1;
    return system("exit 0");
}
