// Stores eight bytes before a block that is aligned to 4096.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    long *block = HIDE(aligned_alloc(4096, 8192));
    long *before = HIDE(block - 1);
    long value = HIDE(*before); // here
    *before = value; // here
    free(block);
    return 0;
}
