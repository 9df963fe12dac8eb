// Loads the element before a static array.
// command: errors
// expect: out_of_bounds
// memtap misses: an instruction that accesses no element within the bounds is not known to belong to the array
#include "../hide.h"

static volatile int before, numbers[10];

NOINLINE static int get(int at)
{
    return numbers[at]; // here
}

int main(void)
{
    before = 1;
    return get(HIDE(-1)) == 77;
}
