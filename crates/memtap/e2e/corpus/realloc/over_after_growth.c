// Stores behind a block that realloc made larger.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    int *numbers = HIDE(malloc(3 * sizeof *numbers));
    numbers[0] = 1;
    SHOW(numbers);
    numbers = HIDE(realloc(numbers, 9 * sizeof *numbers));
    numbers[HIDE(9)] = 1; // here
    SHOW(numbers);
    free(numbers);
    return 0;
}
