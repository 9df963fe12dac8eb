// A byte of input chooses the program that the process becomes.
// stdin: true
// sink: system_call_memory|main|read|0
#include <string.h>
#include <unistd.h>

int main(void)
{
    char path[64] = "/bin/";
    if (read(0, path + 5, 4) != 4) // SOURCE
        return 1;
    execl(path, "true", (char *)0); // SINK
    return 1;
}
