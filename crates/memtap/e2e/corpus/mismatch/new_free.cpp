// Releases what new gave by free.
// command: errors
// expect: mismatched_free
#include <cstdlib>
#include "../hide.h"

int main()
{
    long *p = HIDE(new long(3));
    free(p); // here
    return 0;
}
