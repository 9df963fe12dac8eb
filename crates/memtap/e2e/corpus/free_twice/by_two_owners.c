// Two structs have the same pointer, and both release it.
// command: errors
// expect: invalid_free
#include <stdlib.h>
#include "../hide.h"

struct owner {
    char *name;
};

NOINLINE static void drop(struct owner *owner)
{
    free(owner->name); // here
    SHOW(owner);
}

int main(void)
{
    struct owner a = {malloc(50)}, b = a;
    SHOW(&a);
    SHOW(&b);
    drop(&a);
    drop(&b);
    return 0;
}
