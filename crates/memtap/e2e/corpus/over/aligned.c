// Stores behind a block of posix_memalign.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    void *memory;
    if (posix_memalign(&memory, 64, 100) != 0)
        return 1;
    char *block = HIDE((char *)memory);
    block[99] = 1;
    block = HIDE(block);
    block[HIDE(100)] = 1; // here
    SHOW(block);
    free(block);
    return 0;
}
