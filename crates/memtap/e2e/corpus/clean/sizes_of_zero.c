// Blocks of no bytes, which are released, grown and compared.
// command: errors
// record: --data
// expect: nothing
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    void *a = HIDE(malloc(HIDE(0))), *b = HIDE(calloc(HIDE(0), 8));
    int differ = a == b;
    memcpy(a, b, HIDE(0));
    memset(a, 1, HIDE(0));
    char *c = HIDE(realloc(a, 20));
    c[19] = 1;
    SHOW(c);
    free(b);
    free(c);
    return differ;
}
