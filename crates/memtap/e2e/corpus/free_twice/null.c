// Releases null, which does nothing.
// command: errors
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE((char *)NULL);
    free(block);
    block = HIDE(realloc(HIDE((char *)NULL), 30));
    free(block);
    return 0;
}
