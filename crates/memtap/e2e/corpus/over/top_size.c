// Stores the word right behind the last block of the heap, which is the size of the top chunk.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    long *block = HIDE(malloc(3000));
    block[0] = 1;
    long size = HIDE(block[HIDE(375)]); // here
    block[HIDE(375)] = size; // here
    SHOW(block);
    free(block);
    return 0;
}
