// A value that nobody wrote is handed to a function, which decides by it.
// command: errors
// record: --flow full
// expect: uninitialised
#include <stdlib.h>
#include "../hide.h"

NOINLINE static int is_large(long value)
{
    if (value > 1000)
        return HIDE(1);
    return HIDE(0);
}

int main(void)
{
    long *numbers = HIDE(malloc(10 * sizeof *numbers));
    int large = is_large(numbers[3]);
    free(numbers);
    return large == 77;
}
