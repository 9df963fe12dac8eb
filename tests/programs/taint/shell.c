// A line of input is a command of the shell.
// stdin: echo seven
// stdout: seven
// sink: system_call_memory|main|read|0
#include <stdlib.h>
#include <unistd.h>

int main(void)
{
    char line[64] = {0};
    if (read(0, line, sizeof line - 1) < 1) // SOURCE
        return 1;
    return system(line); // SINK
}
