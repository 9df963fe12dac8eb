// Uses a reference to an element of a vector after the vector has grown.
// command: errors
// expect: use_after_free
#include <vector>
#include "../hide.h"

int main()
{
    std::vector<long> numbers(20, 1);
    long *first = HIDE(&numbers[4]);
    for (int i = 0; i < HIDE(30); i++)
        numbers.push_back(i);
    *HIDE(first) = 3; // here
    SHOW(&numbers);
    return 0;
}
