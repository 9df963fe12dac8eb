// A loop that compilers turn into vector instructions, over lengths that no vector divides.
// command: errors
// expect: nothing
// flags: -O3
#include <stdlib.h>
#include "../hide.h"

NOINLINE static int sum(const short *numbers, int count)
{
    int all = 0;
    for (int i = 0; i < count; i++)
        all += numbers[i] * i;
    return all;
}

int main(void)
{
    int all = 0;
    for (int count = 1; count < 60; count += 7) {
        short *numbers = HIDE(malloc(count * sizeof *numbers));
        for (int i = 0; i < count; i++)
            numbers[i] = i;
        all += sum(HIDE(numbers), count);
        free(numbers);
    }
    return all == 77;
}
