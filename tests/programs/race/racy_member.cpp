// A member of an object that two threads use.
// build: -pthread
// race: shared
#include <thread>

struct Counter {
    long total = 0;
    void add(long n) { total += n; } // RACE
};
Counter shared;

static void work()
{
    for (int i = 0; i < 10; i++) // RACE
        shared.add(i); // RACE
}

int main()
{
    std::thread a(work), b(work);
    a.join();
    b.join();
}
