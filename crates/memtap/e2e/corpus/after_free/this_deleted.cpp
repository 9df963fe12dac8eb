// A method deletes its object and then uses a member.
// command: errors
// expect: use_after_free
#include "../hide.h"

struct counter {
    long count = 0, limit = 3;
    NOINLINE long finish()
    {
        delete HIDE(this);
        return HIDE(this)->limit; // here
    }
};

int main()
{
    counter *c = HIDE(new counter());
    return c->finish() == 77;
}
