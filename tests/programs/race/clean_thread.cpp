// std::thread, std::mutex, and a condition.
// build: -pthread
#include <condition_variable>
#include <mutex>
#include <queue>
#include <thread>

std::mutex lock;
std::condition_variable changed;
std::queue<int> queue;
long sum;

int main()
{
    std::thread producer([] {
        for (int i = 0; i < 20; i++) {
            std::lock_guard<std::mutex> guard(lock);
            queue.push(i);
            changed.notify_one();
        }
    });
    std::thread consumer([] {
        for (int i = 0; i < 20; i++) {
            std::unique_lock<std::mutex> guard(lock);
            changed.wait(guard, [] { return !queue.empty(); });
            sum += queue.front();
            queue.pop();
        }
    });
    producer.join();
    consumer.join();
    return sum != 190;
}
