// Readers and writers with std::shared_mutex, and an object made once.
// command: race
// expect: nothing
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include "../hide.h"

static std::shared_mutex lock;
static std::map<int, std::string> table;
static std::once_flag once;

NOINLINE static size_t look(int key)
{
    std::call_once(once, [] { table[0] = "the first"; });
    std::shared_lock<std::shared_mutex> guard(lock);
    auto at = table.find(key);
    return at == table.end() ? 0 : at->second.size();
}

NOINLINE static void put(int key)
{
    std::call_once(once, [] { table[0] = "the first"; });
    std::unique_lock<std::shared_mutex> guard(lock);
    table[key] = std::string(key, 'x');
}

int main()
{
    std::thread writer([] {
        for (int i = 1; i < 30; i++)
            put(i);
    });
    std::thread reader([] {
        for (int i = 0; i < 30; i++)
            SHOW(look(i));
    });
    writer.join();
    reader.join();
    return look(7) == 77;
}
