// Grows what new gave by realloc.
// command: errors
// expect: mismatched_free
#include <cstdlib>
#include "../hide.h"

int main()
{
    char *p = HIDE(new char[20]);
    p = HIDE(static_cast<char *>(realloc(p, 200))); // here
    free(p);
    return 0;
}
