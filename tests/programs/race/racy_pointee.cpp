// The count of a shared pointer is safe, what it points to is not.
// build: -pthread
// race: <malloc|<operator|<new
#include <memory>
#include <thread>

std::shared_ptr<int> shared = std::make_shared<int>(0);

static void work()
{
    std::shared_ptr<int> own = shared;
    *own += 1; // RACE
}

int main()
{
    std::thread a(work), b(work);
    a.join();
    b.join();
}
