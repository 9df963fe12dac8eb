// A memcpy to before its source, which it overlaps.
// command: errors
// expect: overlap
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(calloc(100, 1));
    memcpy(HIDE(block), HIDE(block + 1), HIDE(99)); // here
    SHOW(block);
    free(block);
    return 0;
}
