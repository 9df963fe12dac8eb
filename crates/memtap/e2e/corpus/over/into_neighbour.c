// Stores far behind a block, into another one that lives.
// command: errors
// expect: out_of_bounds
// memtap misses: the access lands inside another live block
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *first = HIDE(malloc(24));
    char *second = HIDE(malloc(24));
    size_t between = HIDE((size_t)(second - first));
    first[between + 8] = 1; // here
    SHOW(first);
    SHOW(second);
    free(second);
    free(first);
    return 0;
}
