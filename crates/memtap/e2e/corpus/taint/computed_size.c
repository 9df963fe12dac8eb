// A number in the input, by strtol, is how many elements are allocated.
// command: taint
// input: 123
// expect: allocation_size
#include <stdlib.h>
#include <unistd.h>
#include "../hide.h"

int main(void)
{
    char line[64] = {0};
    if (read(0, line, 60) < 2)
        return 1;
    long count = strtol(HIDE((char *)line), NULL, 10);
    long *numbers = HIDE(malloc((count & 0xfff) * sizeof *numbers)); // here
    free(numbers);
    return 0;
}
