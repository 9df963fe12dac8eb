// Stores behind an array that is a member, into the member after it.
// command: errors
// expect: out_of_bounds
#include "../hide.h"

struct record {
    int numbers[4];
    int sum;
};

NOINLINE static int fill(int count)
{
    volatile struct record record = {{0}, 0};
    for (int i = 0; i < count; i++)
        record.numbers[i] = i; // here
    return record.sum;
}

int main(void)
{
    return fill(HIDE(5)) == 77;
}
