// Uses an index into a vector after the vector has grown.
// command: errors
// expect: nothing
#include <vector>
#include "../hide.h"

int main()
{
    std::vector<long> numbers(20, 1);
    int at = HIDE(4);
    for (int i = 0; i < HIDE(30); i++)
        numbers.push_back(i);
    numbers[at] = 3;
    SHOW(&numbers);
    return 0;
}
