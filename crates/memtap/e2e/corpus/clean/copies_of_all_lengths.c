// Blocks of all lengths are copied, moved and compared as they are, at all distances from a vector's boundary.
// command: errors
// expect: nothing
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

static int all(char *from, char *to, int len, int differs)
{
    memcpy(to, from, HIDE(len));
    memmove(from, to, HIDE(len));
    int equal = memcmp(from, to, HIDE(len));
    if (len)
        to[differs % len] ^= 1;
    return equal + (memcmp(from, to, HIDE(len)) == 0) + (memcmp(to, from, HIDE(len)) > 0);
}

int main(void)
{
    int sum = 0;
    for (int len = 0; len < 300; len += 1 + len / 24) {
        for (int offset = 0; offset < 64; offset += 21) {
            char *from = HIDE(calloc(len + offset, 1)), *to = HIDE(malloc(len));
            sum += all(from + offset, to, len, offset * 7);
            free(from);
            free(to);
        }
    }
    for (int len = 1000; len < 20000; len += 3333) {
        char *block = HIDE(calloc(len + 65, 1)), *copy = HIDE(malloc(len + 65));
        memmove(block + 65, block, HIDE(len));
        memmove(block, block + 65, HIDE(len));
        sum += all(block, copy, len + 65, 0);
        free(block);
        free(copy);
    }
    return sum == 77777;
}
