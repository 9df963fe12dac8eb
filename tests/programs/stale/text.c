// The C library reads a string that was freed.
// stale: <freed:@make> by *
// stdout: 30
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hidden.h"
__attribute__((noinline, noclone)) static char *make(void) { return malloc(300); }
int main(void)
{
    char *text = make();
    memset(text, 'x', 200);
    text[130] = 0;
    free(HIDDEN(text));
    // The first words are the allocator's now.
    text = HIDDEN(text + 100);
    printf("%zu\n", strlen(text));
    return 0;
}
