// The count of a shared pointer is safe, what it points to is not.
// build: -pthread
// race: <
#include <memory>
#include <pthread.h>
#include <thread>

// Both threads exist before either works: memory that one has released, and that the other is made of, would order them.
static pthread_barrier_t both;

static void work(std::shared_ptr<int> own)
{
    pthread_barrier_wait(&both);
    *own += 1; // RACE
}

int main()
{
    pthread_barrier_init(&both, nullptr, 2);
    std::shared_ptr<int> shared = std::make_shared<int>(0);
    std::shared_ptr<int> first = shared, second = shared;
    std::thread a(work, std::move(first)), b(work, std::move(second));
    a.join();
    b.join();
}
