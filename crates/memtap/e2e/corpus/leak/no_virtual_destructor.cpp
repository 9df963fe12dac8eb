// A derived object is deleted through a base whose destructor is not virtual, so its member is lost.
// command: errors
// record: --data
// flags: -fno-sized-deallocation
// expect: leak definite
#include "../hide.h"

struct base {
    long id = 1;
};

// On one line, as compilers differ in which of the two the allocation is at.
struct derived : base { char *buffer = new char[200](); // here
    ~derived() { delete[] buffer; }
};

int main()
{
    base *b = HIDE(static_cast<base *>(new derived()));
    delete b;
    b = HIDE(static_cast<base *>(nullptr));
    SHOW(b);
    return 0;
}
