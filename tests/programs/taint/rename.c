// Input is the name that a file gets.
// stdin: /nowhere/at/all
// sink: system_call_memory|main|read|0
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    char line[64] = {0};
    if (read(0, line, 15) != 15) // SOURCE
        return 1;
    return rename("/nowhere/else", line) == 0; // SINK
}
