// A number of input is how many elements calloc gives.
// stdin: 8
// sink: allocation_size|make|read|0
// build: -fno-inline
#include <stdlib.h>
#include <unistd.h>

static volatile long *make(unsigned char count)
{
    return calloc(count, sizeof(long)); // SINK
}

int main(void)
{
    unsigned char digit;
    if (read(0, &digit, 1) != 1) // SOURCE
        return 1;
    volatile long *block = make(digit & 15);
    block[0] = 1;
    return block[0] != 1;
}
