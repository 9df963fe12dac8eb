// Data written after the release of an atomic flag.
// build: -pthread
// race: after
#include <atomic>
#include <thread>

std::atomic<bool> ready{false};
int before, after;
volatile int seen;

static void produce()
{
    before = 1;
    ready.store(true, std::memory_order_release);
    after = 1; // RACE
}

static void consume()
{
    while (!ready.load(std::memory_order_acquire))
        ;
    seen = before + after; // RACE
}

int main()
{
    std::thread a(produce), b(consume);
    a.join();
    b.join();
}
