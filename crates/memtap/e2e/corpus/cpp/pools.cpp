// Containers whose memory comes from pools of the C++ library, which get theirs by operator new.
// command: errors
// record: --data
// expect: nothing
#include <list>
#include <memory_resource>
#include <string>
#include <vector>
#include "../hide.h"

int main()
{
    std::pmr::unsynchronized_pool_resource pool;
    std::pmr::list<std::pmr::string> list(&pool);
    std::pmr::vector<long> numbers(&pool);
    for (int i = 0; i < 200; i++) {
        list.emplace_back(std::pmr::string(i % 60, 'x', &pool));
        numbers.push_back(i);
        if (i % 3 == 0)
            list.pop_front();
    }
    return HIDE(list.size() + numbers.size()) == 77;
}
