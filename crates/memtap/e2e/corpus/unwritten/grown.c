// The part that realloc added decides before anybody writes it.
// command: errors
// record: --flow full
// expect: uninitialised
// memtap misses: memory from realloc counts as written
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    int *numbers = HIDE(calloc(10, sizeof *numbers));
    numbers = HIDE(realloc(numbers, 40 * sizeof *numbers));
    int large = 0;
    if (numbers[30] > 3) // here
        large = HIDE(1);
    free(numbers);
    return large == 77;
}
