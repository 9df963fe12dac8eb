// Objects that ask for more alignment than malloc gives.
// command: errors
// record: --data
// expect: nothing
#include <memory>
#include <vector>
#include "../hide.h"

struct alignas(128) slot {
    long values[20];
};

int main()
{
    std::vector<slot> slots(5);
    auto one = std::make_unique<slot>();
    slots.resize(9);
    slots[8].values[HIDE(19)] = 1;
    one->values[HIDE(19)] = 2;
    SHOW(&slots);
    return 0;
}
