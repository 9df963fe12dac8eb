// Standard output has a buffer of the program's own on the heap, which it takes away before it is released.
// command: errors
// record: --data
// expect: nothing
#include <stdio.h>
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    FILE *file = fopen("/dev/null", "w");
    if (!file)
        return 1;
    char *buffer = malloc(300);
    setvbuf(file, buffer, _IOFBF, 300);
    for (int i = 0; i < 100; i++)
        fprintf(file, "line %d of some\n", i);
    fclose(file);
    free(buffer);
    return 0;
}
