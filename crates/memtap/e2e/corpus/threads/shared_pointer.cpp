// Threads that own an object together by copies of a shared pointer.
// command: race
// expect: nothing
#include <memory>
#include <thread>
#include <vector>
#include "../hide.h"

int main()
{
    auto numbers = std::make_shared<std::vector<long>>(50, 3);
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++)
        threads.emplace_back([own = numbers] { SHOW(&own->at(7)); });
    numbers.reset();
    for (auto &thread : threads)
        thread.join();
    return 0;
}
