// Threads that are started and joined, whose functions the C++ library releases by a virtual destructor of the program's.
// command: errors
// expect: nothing
#include <thread>
#include <vector>
#include "../hide.h"

int main()
{
    std::vector<long> results(3);
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++)
        threads.emplace_back([&results, i] { *HIDE(&results[i]) = i; });
    for (auto &thread : threads)
        thread.join();
    return results[2] == 77;
}
