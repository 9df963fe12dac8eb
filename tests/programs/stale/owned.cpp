// A pointer that a unique_ptr gave up to nobody.
// stale: <freed:@*> by main loads=1
#include <memory>
#include "hidden.h"
struct owner { std::unique_ptr<int[]> numbers { new int[200] }; };
int main()
{
    auto *inside = new owner;
    inside->numbers[100] = 4;
    int *number = HIDDEN(&inside->numbers[100]);
    delete inside;
    return LOAD(*number) != 4;
}
