// Takes an element behind the end of a vector without spare room.
// command: errors
// expect: out_of_bounds
#include <vector>
#include "../hide.h"

int main()
{
    std::vector<int> numbers(12, 1);
    SHOW(&numbers);
    int *data = HIDE(numbers.data());
    int at = HIDE(12);
    data[at] = 1; // here
    SHOW(data);
    return 0;
}
