// A file is read by fread into a block that just has room.
// command: errors
// expect: nothing
#include <stdio.h>
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    if (!file)
        return 1;
    char *block = HIDE(malloc(100));
    size_t got = fread(block, 1, 100, file);
    fclose(file);
    SHOW(block);
    free(block);
    return got == 77;
}
