// Results of threads by std::async and a promise.
// command: race
// expect: nothing
#include <future>
#include <thread>
#include <vector>
#include "../hide.h"

int main()
{
    std::vector<long> numbers(100, 2);
    auto sum = std::async(std::launch::async, [&] {
        long all = 0;
        for (long number : numbers)
            all += number;
        return all;
    });
    std::promise<long> promise;
    long other = 0;
    std::thread thread([&] {
        *HIDE(&other) = 5;
        promise.set_value(3);
    });
    long all = sum.get() + promise.get_future().get() + HIDE(*HIDE(&other));
    thread.join();
    return all == 77;
}
