// A block is written by one member of a union and read by the others.
// command: errors
// record: --flow full
// expect: nothing
#include <stdint.h>
#include <stdlib.h>
#include "../hide.h"

union view {
    double number;
    uint64_t bits;
    struct {
        uint32_t low, high;
    } half;
    unsigned char bytes[8];
};

int main(void)
{
    union view *view = HIDE(malloc(sizeof *view));
    int all = 0;
    for (int i = 0; i < 20; i++) {
        view->number = i * 1.5;
        view = HIDE(view);
        if (view->bits >> 52 > 1023 && view->half.high > 5)
            all += HIDE(1);
        if (view->bytes[7] > 3)
            all += HIDE(1);
    }
    free(view);
    return all == 77;
}
