// A pointer is set to null when its block is released, so that the second release does nothing.
// command: errors
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

struct owner {
    char *name;
};

NOINLINE static void drop(struct owner *owner)
{
    free(owner->name);
    owner->name = NULL;
    SHOW(owner);
}

int main(void)
{
    struct owner owner = {malloc(50)};
    SHOW(&owner);
    drop(&owner);
    drop(&owner);
    return 0;
}
