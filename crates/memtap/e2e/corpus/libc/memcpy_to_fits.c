// A memcpy fills a block.
// command: errors
// expect: nothing
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

static char source[100];

int main(void)
{
    for (int len = 0; len < 100; len += 9) {
        char *block = HIDE(malloc(len));
        memcpy(block, HIDE((char *)source), HIDE(len));
        SHOW(block);
        free(block);
    }
    return 0;
}
