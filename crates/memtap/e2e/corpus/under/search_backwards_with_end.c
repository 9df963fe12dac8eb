// A search from the end stops at the beginning.
// command: errors
// expect: nothing
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

NOINLINE static int last(const char *text, int from, char what)
{
    int at = from;
    while (at >= 0 && *HIDE(&text[at]) != what)
        at--;
    return at;
}

int main(void)
{
    char *text = HIDE(malloc(20));
    memset(text, 'x', 20);
    int at = last(text, HIDE(19), '/');
    free(text);
    return at == 77;
}
