// Deletes what malloc gave.
// command: errors
// expect: mismatched_free
#include <cstdlib>
#include "../hide.h"

int main()
{
    long *p = HIDE(static_cast<long *>(malloc(sizeof(long))));
    *p = 3;
    SHOW(p);
    delete p; // here
    return 0;
}
