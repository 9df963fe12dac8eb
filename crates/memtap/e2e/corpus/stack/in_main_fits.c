// The first function of all fills its own arrays to their ends.
// command: errors
// expect: nothing
#include "../hide.h"
#include <stdio.h>

int main(void)
{
    volatile int numbers[8], others[8];
    int count = HIDE(8), sum = 0;
    for (int i = 0; i < count; i++) {
        numbers[i] = i;
        others[count - 1 - i] = numbers[i];
    }
    for (int i = 0; i < 8; i++)
        sum += numbers[i] + others[i];
    printf("%d\n", sum);
    return 0;
}
