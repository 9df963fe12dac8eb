// A static variable of a function, and std::call_once.
// build: -pthread
#include <mutex>
#include <thread>
#include <vector>

std::once_flag once;
std::vector<int> squares;
long sums[2];

static const std::vector<int> &numbers()
{
    static const std::vector<int> all = { 1, 2, 3, 4 };
    return all;
}

static void work(int me)
{
    std::call_once(once, [] {
        for (int i = 0; i < 4; i++)
            squares.push_back(i * i);
    });
    for (int i = 0; i < 4; i++)
        sums[me] += numbers()[i] + squares[i];
}

int main()
{
    std::thread a(work, 0), b(work, 1);
    a.join();
    b.join();
    return sums[0] != 24;
}
