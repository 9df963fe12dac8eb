// Shared pointers, the last of which destroys; a future.
// build: -pthread
#include <future>
#include <memory>
#include <thread>

struct Config {
    int values[8];
    ~Config() { values[0] = -1; }
};
long sums[2];

static void work(std::shared_ptr<Config> config, int me)
{
    for (int i = 0; i < 8; i++)
        sums[me] += config->values[i];
}

int main()
{
    auto config = std::make_shared<Config>();
    for (int i = 0; i < 8; i++)
        config->values[i] = i;
    std::thread a(work, config, 0), b(work, config, 1);
    config.reset();
    std::promise<int> promise;
    auto future = promise.get_future();
    static int answer;
    std::thread c([&promise] {
        answer = 42;
        promise.set_value(1);
    });
    future.get();
    int seen = answer;
    a.join();
    b.join();
    c.join();
    return seen != 42 || sums[0] != 28;
}
