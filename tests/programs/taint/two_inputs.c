// The command line names a directory, and a line of input the file in it.
// args: /nowhere
// stdin: missing
// sink: system_call_memory|main|argv
// sink: system_call_memory|main|read|0
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char name[128] = {0}, line[64] = {0};
    if (read(0, line, 7) != 7) // SOURCE
        return 1;
    strcpy(name, argv[argc - 1]);
    strcat(name, "/");
    strcat(name, line);
    return open(name, O_RDONLY) >= 0; // SINK
}
