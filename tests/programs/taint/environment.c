// A variable of the environment names a file that is opened.
// sink: system_call_memory|main|environment
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
    char name[4096];
    strncpy(name, getenv("PATH"), sizeof name - 1);
    open(name, O_RDONLY); // SINK
    return 0;
}
