// A memmove of elements one to the right, where there is no room for the last one.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    long *numbers = HIDE(calloc(5, sizeof *numbers));
    memmove(HIDE(numbers + 1), numbers, HIDE(5 * sizeof *numbers)); // here
    SHOW(numbers);
    free(numbers);
    return 0;
}
