// How much is allocated is what the input says.
// command: taint
// input: 0123456789
// expect: allocation_size
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../hide.h"

int main(void)
{
    char line[64] = {0};
    int size;
    if (read(0, line, 60) < 4)
        return 1;
    memcpy(&size, HIDE((char *)line), 4);
    char *block = HIDE(malloc(size & 0xfff)); // here
    free(block);
    return 0;
}
