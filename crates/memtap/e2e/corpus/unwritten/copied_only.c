// A struct of which one member was not written is copied, and only the other one is used.
// command: errors
// record: --flow full
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

struct pair {
    long a, b;
};

int main(void)
{
    struct pair *from = HIDE(malloc(sizeof *from)), *to = HIDE(malloc(sizeof *to));
    from->a = 3;
    from = HIDE(from);
    *to = *from;
    to = HIDE(to);
    int large = 0;
    if (to->a > 1000)
        large = HIDE(1);
    free(from);
    free(to);
    return large == 77;
}
