// A search from the end that does not find what it looks for goes past the beginning.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

NOINLINE static int last(const char *text, int from, char what)
{
    int at = from;
    while (at >= -2 && *HIDE(&text[at]) != what) // here
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
