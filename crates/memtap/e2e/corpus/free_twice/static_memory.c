// Releases a static variable.
// command: errors
// expect: invalid_free
#include <stdlib.h>
#include "../hide.h"

static char variable[64];

int main(void)
{
    char *block = HIDE((char *)variable);
    free(block); // here
    return 0;
}
