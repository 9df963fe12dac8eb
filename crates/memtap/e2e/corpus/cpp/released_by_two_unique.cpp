// Two unique pointers are made of one pointer.
// command: errors
// expect: invalid_free
#include <memory>
#include "../hide.h"

int main()
{
    long *number = HIDE(new long(3));
    std::unique_ptr<long> a(number);
    std::unique_ptr<long> b(number);
    SHOW(&a);
    SHOW(&b);
    return 0;
}
