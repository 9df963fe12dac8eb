// A memcpy reads eight bytes more than its source has.
// command: errors
// expect: out_of_bounds
// memtap may miss: of some processors' copying functions the loads of whole vectors say nothing, nor do those of a library without symbols
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

static char target[100];

int main(void)
{
    char *block = HIDE(malloc(24));
    memset(block, 'x', HIDE(24));
    memcpy(HIDE((char *)target), block, HIDE(32)); // here
    free(block);
    return HIDE(target[3]) == 77;
}
