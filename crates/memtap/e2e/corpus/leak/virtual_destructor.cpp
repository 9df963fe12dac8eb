// A derived object is deleted through a base whose destructor is virtual.
// command: errors
// record: --data
// expect: nothing
#include "../hide.h"

struct base {
    long id = 1;
    virtual ~base() = default;
};

struct derived : base {
    char *buffer = new char[200]();
    ~derived() override { delete[] buffer; }
};

int main()
{
    base *b = HIDE(static_cast<base *>(new derived()));
    delete b;
    return 0;
}
