// The kernel reads a block that was freed.
// stale: <freed:@make> by *
// stdout: abc
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "hidden.h"
__attribute__((noinline, noclone)) static char *make(void) { return malloc(600); }
int main(void)
{
    char *block = make();
    memcpy(block + 300, "abc\n", 4);
    free(HIDDEN(block));
    return write(1, HIDDEN(block + 300), 4) != 4;
}
