// A struct that nobody wrote is copied, and the copy decides.
// command: errors
// record: --flow full
// expect: uninitialised
#include <stdlib.h>
#include "../hide.h"

struct pair {
    long a, b;
};

int main(void)
{
    struct pair *from = HIDE(malloc(sizeof *from)), *to = HIDE(malloc(sizeof *to));
    *to = *from;
    to = HIDE(to);
    int large = 0;
    if (to->b > 1000)
        large = HIDE(1);
    free(from);
    free(to);
    return large == 77;
}
