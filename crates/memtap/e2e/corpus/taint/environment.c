// The environment names a file that is opened.
// command: taint
// expect: system_call_memory
#include <fcntl.h>
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    const char *path = HIDE(getenv("PATH"));
    if (!path)
        return 1;
    int file = open(path, O_RDONLY); // here
    return file == 77;
}
