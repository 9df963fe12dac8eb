// An array by reallocarray, used to its end.
// command: errors
// expect: nothing
#define _GNU_SOURCE
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    int *numbers = NULL;
    for (int count = 1; count < 200; count += count + 3) {
        numbers = HIDE(reallocarray(numbers, count, sizeof *numbers));
        numbers[HIDE(count - 1)] = count;
        SHOW(numbers);
    }
    free(numbers);
    return 0;
}
