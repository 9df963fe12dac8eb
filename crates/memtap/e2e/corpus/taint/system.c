// The input is a command for the shell.
// command: taint
// input: true
// expect: system_call_memory
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../hide.h"

int main(void)
{
    char line[64] = {0};
    if (read(0, line, 60) < 4)
        return 1;
    return system(HIDE((char *)line)); // here
}
