// A memcpy reads all of its source.
// command: errors
// expect: nothing
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

static char target[100];

int main(void)
{
    for (int len = 0; len < 100; len += 9) {
        char *block = HIDE(malloc(len));
        memset(block, 'x', HIDE(len));
        memcpy(HIDE((char *)target), block, HIDE(len));
        free(block);
    }
    return HIDE(target[3]) == 77;
}
