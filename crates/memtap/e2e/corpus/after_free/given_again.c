// The address of a released block is given again, and is used by its new owner.
// command: errors
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    long *old = HIDE(malloc(40));
    *old = 1;
    SHOW(old);
    free(old);
    long *again = HIDE(malloc(40));
    *again = 2;
    SHOW(again);
    int same = again == old;
    free(again);
    return same == 77;
}
