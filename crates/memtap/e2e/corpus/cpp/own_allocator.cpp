// Containers with an allocator that keeps a header before each block.
// command: errors
// record: --data
// expect: nothing
#include <cstdlib>
#include <map>
#include <string>
#include <vector>
#include "../hide.h"

static size_t in_use;

template <typename T>
struct counting {
    using value_type = T;
    counting() = default;
    template <typename U>
    counting(const counting<U> &)
    {
    }
    T *allocate(size_t count)
    {
        size_t *header = static_cast<size_t *>(malloc(16 + count * sizeof(T)));
        header[0] = count * sizeof(T);
        in_use += header[0];
        return reinterpret_cast<T *>(header + 2);
    }
    void deallocate(T *block, size_t)
    {
        size_t *header = reinterpret_cast<size_t *>(block) - 2;
        in_use -= header[0];
        free(header);
    }
    bool operator==(const counting &) const { return true; }
    bool operator!=(const counting &) const { return false; }
};

int main()
{
    {
        std::vector<long, counting<long>> numbers;
        std::map<int, long, std::less<int>, counting<std::pair<const int, long>>> map;
        for (int i = 0; i < 100; i++) {
            numbers.push_back(i);
            map[i % 17] += i;
        }
        SHOW(&numbers);
    }
    return in_use != 0;
}
