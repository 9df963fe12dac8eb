// Two objects own each other by shared pointers, so neither is released.
// command: errors
// record: --data
// expect: leak definite
// expect: leak indirect
#include <memory>
#include "../hide.h"

struct partner {
    std::shared_ptr<partner> other;
    long values[10] = {};
};

NOINLINE static void make()
{
    auto a = std::make_shared<partner>();
    auto b = std::make_shared<partner>();
    a->other = b;
    b->other = a;
    SHOW(&a);
}

NOINLINE static void clear_stack()
{
    long words[200] = {};
    SHOW(words);
}

int main()
{
    make();
    clear_stack();
    return 0;
}
