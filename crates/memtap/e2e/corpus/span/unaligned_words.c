// Words at odd places, all within the block.
// command: errors
// expect: nothing
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(29));
    for (int at = 0; at + 8 <= 29; at += 7) {
        long value = HIDE(at);
        memcpy(HIDE(block + at), &value, 8);
    }
    SHOW(block);
    free(block);
    return 0;
}
