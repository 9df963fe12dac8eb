// The command line names a file that is opened.
// args: /dev/null
// sink: system_call_memory|main|argv
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char name[64];
    strcpy(name, argv[argc - 1]);
    return open(name, O_RDONLY) < 0; // SINK
}
