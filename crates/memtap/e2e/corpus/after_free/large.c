// Stores into a released block that lies on the heap and is large.
// command: errors
// expect: use_after_free
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(100000)), *keeper = HIDE(malloc(10));
    block[0] = 1;
    SHOW(block);
    free(block);
    block = HIDE(block);
    block[70000] = 1; // here
    SHOW(block);
    free(keeper);
    return 0;
}
