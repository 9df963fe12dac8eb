// Reads the element behind the last one of a vector that has spare room.
// command: errors
// expect: uninitialised
#include <vector>
#include "../hide.h"

int main()
{
    std::vector<int> numbers;
    numbers.reserve(10);
    numbers.push_back(1);
    int *data = HIDE(numbers.data());
    int large = 0;
    if (data[5] > 3) // here
        large = HIDE(1);
    return large == 77;
}
