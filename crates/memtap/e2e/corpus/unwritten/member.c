// One member of a struct is not set, and decides.
// command: errors
// expect: uninitialised
// memtap misses in: gcc-O2 clang-O1 clang-O2: the compiler turns the decision into a conditional move or a shift
#include <stdlib.h>
#include "../hide.h"

struct options {
    int level, is_loud;
    long limit;
};

NOINLINE static long limit(const struct options *options)
{
    if (options->is_loud) // here
        return 2 * options->limit;
    return options->limit;
}

int main(void)
{
    struct options *options = HIDE(malloc(sizeof *options));
    options->level = 1;
    options->limit = 30;
    long max = limit(HIDE(options));
    free(options);
    return max == 77;
}
