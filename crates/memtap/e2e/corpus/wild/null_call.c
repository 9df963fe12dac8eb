// Calls a function by a null pointer.
// command: errors
// expect: wild
#include <stddef.h>
#include "../hide.h"

int main(void)
{
    int (*function)(void) = HIDE((int (*)(void))NULL);
    return function() == 77; // here
}
