// Loads the element before an array.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    long *numbers = HIDE(calloc(8, sizeof *numbers));
    int at = HIDE(-1);
    long before = HIDE(numbers[at]); // here
    free(numbers);
    return before == 77;
}
