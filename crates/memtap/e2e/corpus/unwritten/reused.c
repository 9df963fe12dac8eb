// A block that was used before is given again, and its old bytes decide.
// command: errors
// expect: uninitialised
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    int *old = HIDE(malloc(64));
    for (int i = 0; i < 16; i++)
        *HIDE(&old[i]) = i;
    free(old);
    int *numbers = HIDE(malloc(64));
    int large = 0;
    if (numbers[9] > 3) // here
        large = HIDE(1);
    free(numbers);
    return large == 77;
}
