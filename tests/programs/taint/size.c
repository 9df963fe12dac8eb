// A number of input is the size of a block.
// stdin: 8
// stdout: 128
// sink: allocation_size|main|read|0
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void)
{
    char digit;
    if (read(0, &digit, 1) != 1) // SOURCE
        return 1;
    size_t bytes = (digit & 15) * 16;
    volatile char *block = malloc(bytes); // SINK
    block[bytes - 1] = 1;
    printf("%zu\n", bytes);
    free((void *)block);
    return 0;
}
