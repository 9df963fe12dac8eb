// The count of a shared pointer is safe, what it points to is not.
// build: -pthread
// race: <
#include <memory>
#include <thread>

static void work(std::shared_ptr<int> own)
{
    *own += 1; // RACE
}

int main()
{
    std::shared_ptr<int> shared = std::make_shared<int>(0);
    std::shared_ptr<int> first = shared, second = shared;
    std::thread a(work, std::move(first)), b(work, std::move(second));
    a.join();
    b.join();
}
