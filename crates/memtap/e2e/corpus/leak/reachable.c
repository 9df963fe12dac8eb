// A block is never released, and a static variable points to it.
// command: errors
// record: --data
// expect: leak reachable
#include <stdlib.h>
#include "../hide.h"

static char *volatile cache;

int main(void)
{
    cache = malloc(300); // here
    cache[0] = 1;
    return 0;
}
