// A local array that nobody wrote decides.
// command: errors
// record: --flow full
// expect: uninitialised
// memtap misses: bytes on the stack count as written
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    int array[20];
    int *numbers = HIDE((int *)array);
    int large = 0;
    if (numbers[7] > 3) // here
        large = HIDE(1);
    return large == 77;
}
