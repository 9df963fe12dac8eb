// Loads behind the last element of a table of constants.
// command: errors
// expect: out_of_bounds
#include "../hide.h"

static const short days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

NOINLINE static int sum(const int from, const int to)
{
    int all = 0;
    for (int month = from; month <= to; month++)
        all += ((const volatile short *)days)[month]; // here
    return all;
}

int main(void)
{
    return sum(HIDE(1), HIDE(12)) == 77;
}
