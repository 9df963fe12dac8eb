// A memset whose length is the number of elements, not of bytes.
// command: errors
// expect: nothing
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    long *numbers = HIDE(malloc(30 * sizeof *numbers));
    memset(numbers, 0, HIDE(30));
    SHOW(numbers);
    free(numbers);
    return 0;
}
