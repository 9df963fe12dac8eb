// A double that nobody wrote decides.
// command: errors
// record: --flow full
// expect: uninitialised
// memtap misses: floating-point numbers in registers are not followed
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    double *numbers = HIDE(malloc(10 * sizeof *numbers));
    numbers[0] = 1;
    numbers = HIDE(numbers);
    int large = 0;
    if (numbers[5] > numbers[0]) // here
        large = HIDE(1);
    free(numbers);
    return large == 77;
}
