// A memcmp of blocks of many lengths.
// command: errors
// expect: nothing
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    int differ = 0;
    for (int len = 1; len < 140; len += 6) {
        char *a = HIDE(calloc(len, 1)), *b = HIDE(calloc(len, 1));
        differ += memcmp(a, b, HIDE(len));
        free(a);
        free(b);
    }
    return differ == 77;
}
