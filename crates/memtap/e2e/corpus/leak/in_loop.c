// Each turn of a loop loses a block.
// command: errors
// record: --data
// expect: leak definite
#include <stdlib.h>
#include "../hide.h"

NOINLINE static int work(int turn)
{
    int *scratch = HIDE(malloc(400)); // here
    scratch[turn] = turn;
    return HIDE(scratch[turn]);
}

int main(void)
{
    int all = 0;
    for (int i = 0; i < 20; i++)
        all += work(i);
    return all == 77;
}
