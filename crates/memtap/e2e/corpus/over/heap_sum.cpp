// Reads one element behind an array of new[].
// command: errors
// expect: out_of_bounds
#include "../hide.h"

NOINLINE static long sum(const long *numbers, int count)
{
    long all = 0;
    for (int i = 0; i < count; i++)
        all += *HIDE(&numbers[i]); // here
    return all;
}

int main()
{
    long *numbers = HIDE(new long[7]());
    long all = sum(numbers, HIDE(8));
    delete[] numbers;
    return all == 77;
}
