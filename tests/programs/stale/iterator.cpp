// An iterator that push_back made stale.
// stale: <freed:@*> by main
#include <vector>
#include "hidden.h"
int main()
{
    std::vector<int> numbers(100, 1);
    auto middle = numbers.begin() + 50;
    numbers.push_back(2);
    return *HIDDEN(&*middle) != 1;
}
