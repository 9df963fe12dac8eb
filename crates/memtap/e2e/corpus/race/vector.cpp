// Two threads append to the same vector.
// command: race
// expect: race
#include <thread>
#include <vector>
#include "../hide.h"

static std::vector<long> numbers;

int main()
{
    numbers.reserve(1000);
    auto work = [] {
        for (int i = 0; i < 50; i++)
            numbers.push_back(HIDE(i));
    };
    std::thread a(work), b(work);
    a.join();
    b.join();
    return numbers.size() == 77;
}
