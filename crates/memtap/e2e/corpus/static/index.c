// Stores behind the last element of a static array.
// command: errors
// expect: out_of_bounds
#include "../hide.h"

static volatile int numbers[10];
static volatile int other;

int main(void)
{
    int count = HIDE(11);
    for (int i = 0; i < count; i++)
        numbers[i] = i; // here
    return other == 77;
}
