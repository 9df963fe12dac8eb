// A strcat to a string whose block has no room for it.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(24));
    strcpy(block, HIDE((const char *)"a long beginning, "));
    strcat(block, HIDE((const char *)"an end")); // here
    SHOW(block);
    free(block);
    return 0;
}
