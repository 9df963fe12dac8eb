// Of two objects one owns the other, which knows it by a weak pointer.
// command: errors
// record: --data
// expect: nothing
#include <memory>
#include "../hide.h"

struct child;
struct parent {
    std::shared_ptr<child> owned;
};
struct child {
    std::weak_ptr<parent> owner;
    long values[10] = {};
};

int main()
{
    auto a = std::make_shared<parent>();
    a->owned = std::make_shared<child>();
    a->owned->owner = a;
    SHOW(&a);
    return 0;
}
