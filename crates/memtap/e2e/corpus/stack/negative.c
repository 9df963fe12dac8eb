// Loads the element before a local array.
// command: errors
// expect: out_of_bounds
// memtap misses: an instruction that accesses no element within the bounds is not known to belong to the array
#include "../hide.h"

NOINLINE static int get(int at)
{
    volatile int numbers[8] = {1, 2, 3};
    return numbers[at]; // here
}

int main(void)
{
    return get(HIDE(-1)) == 77;
}
