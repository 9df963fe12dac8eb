// A method of an object that was deleted.
// stale: <freed:@main> by counter::next loads=1 stores=1
#include "hidden.h"
struct counter {
    long space[20] {};
    long value = 1;
    __attribute__((noinline)) long next()
    {
        long now = LOAD(value);
        STORE(value, now + 1);
        return now;
    }
};
int main()
{
    auto *one = new counter;
    one->next();
    delete one;
    return HIDDEN(one)->next() != 2;
}
