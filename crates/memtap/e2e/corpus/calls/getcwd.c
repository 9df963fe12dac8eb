// The kernel writes a name into a block that is as long as it may be.
// command: errors
// expect: nothing
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../hide.h"

int main(void)
{
    char *name = HIDE(malloc(PATH_MAX));
    if (!getcwd(name, PATH_MAX))
        return 1;
    size_t len = strlen(HIDE(name));
    free(name);
    return len == 0;
}
