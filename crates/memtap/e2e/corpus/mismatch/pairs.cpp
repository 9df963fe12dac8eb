// Every kind of allocation with its own release.
// command: errors
// expect: nothing
#include <cstdlib>
#include <cstring>
#include <new>
#include "../hide.h"

struct alignas(64) wide {
    char bytes[128];
};

int main()
{
    delete HIDE(new long(3));
    delete[] HIDE(new long[30]());
    delete HIDE(new (std::nothrow) int(3));
    delete[] HIDE(new (std::nothrow) int[3]());
    delete HIDE(new wide());
    delete[] HIDE(new wide[3]());
    free(HIDE(malloc(30)));
    free(HIDE(calloc(3, 9)));
    free(HIDE(strdup(HIDE((const char *)"text"))));
    operator delete(HIDE(operator new(40)));
    operator delete[](HIDE(operator new[](40)));
    return 0;
}
