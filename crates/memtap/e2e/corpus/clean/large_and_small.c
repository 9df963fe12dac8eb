// Blocks of all sizes are allocated and released in an order that mixes them.
// command: errors
// record: --data
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *blocks[64] = {0};
    unsigned number = 12345;
    for (int i = 0; i < 600; i++) {
        number = number * 1103515245 + 12345;
        unsigned at = number >> 26, size = 1 + (number >> 8) % (i % 50 ? 700 : 300000);
        free(blocks[at]);
        blocks[at] = HIDE(malloc(size));
        blocks[at][0] = blocks[at][size - 1] = i;
    }
    for (int i = 0; i < 64; i++)
        free(blocks[i]);
    return 0;
}
