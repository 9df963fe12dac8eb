// A decision by an element that nobody wrote.
// command: errors
// expect: uninitialised
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    int *numbers = HIDE(malloc(10 * sizeof *numbers));
    numbers[0] = 1;
    numbers = HIDE(numbers);
    int is_set = 0;
    if (numbers[4] > 3) // here
        is_set = HIDE(1);
    free(numbers);
    return is_set == 77;
}
