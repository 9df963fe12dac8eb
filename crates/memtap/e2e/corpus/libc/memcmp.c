// A memcmp of more bytes than the block has, which are the same up to there.
// command: errors
// expect: out_of_bounds
// memtap may miss: of some processors' comparing functions the loads of whole vectors say nothing, nor do those of a library without symbols
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

static char model[100];

int main(void)
{
    char *block = HIDE(calloc(24, 1));
    int same = memcmp(block, HIDE((char *)model), HIDE(32)); // here
    free(block);
    return same == 77;
}
