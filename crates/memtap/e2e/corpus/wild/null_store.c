// Stores through null.
// command: errors
// expect: wild
// memtap misses: an access that faults is none, and is not in the trace
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    int *nowhere = HIDE((int *)NULL);
    *nowhere = 1; // here
    return 0;
}
