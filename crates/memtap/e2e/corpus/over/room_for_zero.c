// Room for a string and its zero, which a loop copies.
// command: errors
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

NOINLINE static void copy(char *to, const char *from)
{
    size_t i = 0;
    while (*HIDE(&from[i])) {
        to[i] = from[i];
        i++;
    }
    to[i] = 0;
}

int main(void)
{
    const char *word = HIDE((const char *)"sixteen letters!");
    char *block = HIDE(malloc(17));
    copy(block, word);
    SHOW(block);
    free(block);
    return 0;
}
