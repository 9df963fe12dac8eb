// Releases an array on the stack.
// command: errors
// expect: invalid_free
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char array[64];
    char *block = HIDE((char *)array);
    free(block); // here
    return 0;
}
