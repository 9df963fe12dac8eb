// A unique_ptr whose deleter is free has a block of malloc.
// command: errors
// expect: nothing
#include <cstdlib>
#include <memory>
#include "../hide.h"

int main()
{
    std::unique_ptr<long, void (*)(void *)> p(static_cast<long *>(malloc(sizeof(long))), free);
    *p = 3;
    SHOW(p.get());
    return 0;
}
