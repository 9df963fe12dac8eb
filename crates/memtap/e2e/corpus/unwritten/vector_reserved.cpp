// A vector reserves room and is then filled by push_back.
// command: errors
// expect: nothing
#include <vector>
#include "../hide.h"

int main()
{
    std::vector<int> numbers;
    numbers.reserve(100);
    for (int i = 0; i < HIDE(60); i++)
        numbers.push_back(i);
    int large = 0;
    for (int number : numbers)
        if (number > 50)
            large = HIDE(large + 1);
    return large == 77;
}
