// A struct of 32 bytes is copied into a block of 28.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include "../hide.h"

struct box {
    double left, top, right, bottom;
};

int main(void)
{
    struct box *box = HIDE(malloc(28));
    struct box model = {1, 2, 3, 4};
    SHOW(&model);
    *box = model; // here
    SHOW(box);
    _Exit(0);
}
