// A pool of threads takes functions from a queue until it is told to end.
// command: race
// expect: nothing
#include <condition_variable>
#include <functional>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>
#include "../hide.h"

int main()
{
    std::queue<std::function<void()>> queue;
    std::mutex lock;
    std::condition_variable changed;
    bool is_over = false;
    std::vector<long> results(40);
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++)
        threads.emplace_back([&] {
            for (;;) {
                std::unique_lock<std::mutex> guard(lock);
                changed.wait(guard, [&] { return is_over || !queue.empty(); });
                if (queue.empty())
                    return;
                auto work = std::move(queue.front());
                queue.pop();
                guard.unlock();
                work();
            }
        });
    for (int i = 0; i < 40; i++) {
        std::lock_guard<std::mutex> guard(lock);
        queue.push([&results, i] { *HIDE(&results[i]) = i * i; });
        changed.notify_one();
    }
    {
        std::lock_guard<std::mutex> guard(lock);
        is_over = true;
        changed.notify_all();
    }
    for (auto &thread : threads)
        thread.join();
    return HIDE(results[7]) == 77;
}
