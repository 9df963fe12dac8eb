// A thread-local object releases its block after main has returned.
// command: errors
// record: --data
// expect: nothing
#include <vector>
#include "../hide.h"

static thread_local std::vector<long> numbers;

int main()
{
    for (int i = 0; i < HIDE(100); i++)
        numbers.push_back(i);
    return HIDE(numbers[30]) == 77;
}
