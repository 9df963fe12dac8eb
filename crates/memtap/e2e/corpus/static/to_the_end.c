// Stores into every element of static arrays.
// command: errors
// expect: nothing
#include "../hide.h"

static volatile int numbers[10];
static volatile char bytes[33];
static volatile double matrix[3][5];

int main(void)
{
    for (int i = 0; i < HIDE(10); i++)
        numbers[i] = i;
    for (int i = 0; i < HIDE(33); i++)
        bytes[i] = i;
    for (int i = 0; i < HIDE(15); i++)
        matrix[i / 5][i % 5] = i;
    return numbers[3] == 77;
}
