// A memmove of all elements but the last one to the right.
// command: errors
// expect: nothing
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    long *numbers = HIDE(calloc(5, sizeof *numbers));
    memmove(HIDE(numbers + 1), numbers, HIDE(4 * sizeof *numbers));
    SHOW(numbers);
    free(numbers);
    return 0;
}
