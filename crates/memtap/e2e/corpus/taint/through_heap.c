// The input goes through two blocks and a string function before it names a file.
// command: taint
// input: /nowhere/at/all
// expect: system_call_memory
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../hide.h"

int main(void)
{
    char *first = HIDE(calloc(64, 1)), *second = HIDE(calloc(64, 1));
    if (read(0, first, 15) < 4)
        return 1;
    strcpy(second, HIDE((const char *)"/tmp"));
    strcat(second, HIDE(first));
    int file = open(HIDE(second), O_RDONLY); // here
    free(first);
    free(second);
    return file == 77;
}
