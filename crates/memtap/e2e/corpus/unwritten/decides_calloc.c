// A decision by an element that calloc wrote.
// command: errors
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    int *numbers = HIDE(calloc(10, sizeof *numbers));
    int is_set = 0;
    if (numbers[4] > 3)
        is_set = HIDE(1);
    free(numbers);
    return is_set == 77;
}
