// A qsort of an array and a bsearch in it.
// command: errors
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

int main(void)
{
    int *numbers = HIDE(malloc(301 * sizeof *numbers));
    for (int i = 0; i < 301; i++)
        numbers[i] = i * 7919 % 301;
    qsort(HIDE(numbers), 301, sizeof *numbers, compare);
    int key = 17;
    int *found = bsearch(&key, numbers, 301, sizeof *numbers, compare);
    int at = found - numbers;
    free(numbers);
    return at == 77;
}
