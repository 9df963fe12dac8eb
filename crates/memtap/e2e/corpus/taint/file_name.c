// The input is the name of a file that is opened.
// command: taint
// input: /nowhere/at/all
// expect: system_call_memory
#include <fcntl.h>
#include <unistd.h>
#include "../hide.h"

int main(void)
{
    char line[64] = {0};
    if (read(0, line, 15) < 4)
        return 1;
    int file = open(HIDE((char *)line), O_RDONLY); // here
    return file == 77;
}
