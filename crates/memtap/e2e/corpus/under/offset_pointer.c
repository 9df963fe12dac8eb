// Counts from one by a pointer to the element before the first: nothing before the block is accessed.
// command: errors
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    int *numbers = HIDE(malloc(10 * sizeof *numbers));
    int *from_one = HIDE(numbers - 1);
    for (int i = 1; i <= 10; i++)
        from_one[HIDE(i)] = i;
    SHOW(numbers);
    free(numbers);
    return 0;
}
