// Input names a program that is not there.
// stdin: /nowhere/at/all
// sink: system_call_memory|main|read|0
#include <unistd.h>

int main(void)
{
    char line[64] = {0};
    if (read(0, line, 15) != 15) // SOURCE
        return 1;
    execl(line, line, (char *)0); // SINK
    return 0;
}
