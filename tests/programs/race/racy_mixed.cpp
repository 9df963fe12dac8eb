// One thread counts atomically, the other does not.
// build: -pthread
// race: hits
#include <thread>

int hits;

static void count()
{
    __atomic_fetch_add(&hits, 1, __ATOMIC_SEQ_CST); // RACE
}

static void add()
{
    hits += 1; // RACE
}

int main()
{
    std::thread a(count), b(add);
    a.join();
    b.join();
}
