// An argument of the command line is the name of a file that is opened.
// command: taint
// run: /nowhere/at/all
// expect: system_call_memory
#include <fcntl.h>
#include "../hide.h"

int main(int count, char **arguments)
{
    int file = open(HIDE(arguments[1]), O_RDONLY); // here
    return file == 77;
}
