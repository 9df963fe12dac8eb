// Stores into element 5 of 5 from calloc.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    double *numbers = HIDE(calloc(5, sizeof *numbers));
    int at = HIDE(5);
    numbers[at] = 1.5; // here
    SHOW(numbers);
    free(numbers);
    return 0;
}
