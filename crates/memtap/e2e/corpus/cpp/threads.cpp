// Threads that are started and joined, whose functions the C++ library releases by a virtual destructor of the program's.
// command: errors
// expect: nothing
// memtap accuses in: gcc-O2 clang-O2: the destructor jumps to operator delete, so the call of it is the C++ library's of the destructor,
// through a pointer, and names no operator
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
