// A unique_ptr without a deleter of its own has a block of malloc.
// command: errors
// expect: mismatched_free
#include <cstdlib>
#include <memory>
#include "../hide.h"

int main()
{
    std::unique_ptr<long> p(static_cast<long *>(malloc(sizeof(long))));
    *p = 3;
    SHOW(p.get());
    return 0;
}
