// Two threads make an object where there is none, without a lock.
// command: race
// expect: race
#include <thread>
#include "../hide.h"

struct table {
    long size = 3;
};

static table *shared;

NOINLINE static table *get()
{
    if (!*HIDE(&shared)) // here
        *HIDE(&shared) = new table(); // here
    return *HIDE(&shared); // here
}

int main()
{
    std::thread a([] { SHOW(get()); }), b([] { SHOW(get()); });
    a.join();
    b.join();
    delete shared;
    return 0;
}
