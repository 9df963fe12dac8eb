// Room for a string without its zero, which a loop copies.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include "../hide.h"

NOINLINE static void copy(char *to, const char *from)
{
    size_t i = 0;
    while (*HIDE(&from[i])) {
        to[i] = from[i];
        i++;
    }
    to[i] = 0; // here
}

int main(void)
{
    const char *word = HIDE((const char *)"sixteen letters!");
    char *block = HIDE(malloc(16));
    copy(block, word);
    SHOW(block);
    free(block);
    return 0;
}
