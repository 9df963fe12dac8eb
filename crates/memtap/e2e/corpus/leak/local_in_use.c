// The only pointer lies on the stack below a return address that is read, but not returned by; the program ends in that function.
// command: errors
// record: --data
// expect: leak reachable
#include <stdlib.h>
#include "../hide.h"

static void *volatile caller;

__attribute__((noinline)) static int inner(void)
{
    char *volatile kept[4] = { 0 };
    kept[0] = malloc(100); // here
    caller = __builtin_return_address(0);
    if (HIDE(kept[0]) && caller)
        exit(0);
    return kept[1] != 0;
}

int main(void)
{
    return inner() + 1;
}
