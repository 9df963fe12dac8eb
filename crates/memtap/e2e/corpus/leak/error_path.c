// A block is not released where a function returns early.
// command: errors
// record: --data
// expect: leak definite
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

NOINLINE static int parse(const char *text)
{
    char *copy = HIDE(malloc(64)); // here
    strcpy(copy, text);
    if (*HIDE(copy) != 'x')
        return -1;
    free(copy);
    return 0;
}

int main(void)
{
    int result = parse(HIDE((const char *)"xyz")) + parse(HIDE((const char *)"abc"));
    return result == 77;
}
