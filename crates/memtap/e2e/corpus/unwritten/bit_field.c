// Bit fields are set one after the other in a word that nobody wrote before.
// command: errors
// record: --flow full
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

struct flags {
    unsigned a : 3, b : 5, c : 8;
};

int main(void)
{
    struct flags *flags = HIDE(malloc(sizeof *flags));
    flags->a = HIDE(3);
    flags = HIDE(flags);
    flags->b = HIDE(7);
    flags = HIDE(flags);
    int large = 0;
    if (flags->b > 5 && flags->a == 3)
        large = HIDE(1);
    free(flags);
    return large == 77;
}
