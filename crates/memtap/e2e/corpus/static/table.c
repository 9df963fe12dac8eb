// A table of constants, of which the first to the last element is loaded.
// command: errors
// expect: nothing
#include "../hide.h"

static const short days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

NOINLINE static int sum(const int from, const int to)
{
    int all = 0;
    for (int month = from; month < to; month++)
        all += ((const volatile short *)days)[month];
    return all;
}

int main(void)
{
    return sum(HIDE(0), HIDE(12)) == 77;
}
