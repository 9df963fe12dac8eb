// Objects that are returned, moved, swapped and assigned to themselves.
// command: errors
// record: --data
// expect: nothing
#include <string>
#include <utility>
#include <vector>
#include "../hide.h"

class buffer {
    char *bytes = nullptr;
    size_t len = 0;

public:
    explicit buffer(size_t len) : bytes(new char[len]()), len(len) {}
    buffer(const buffer &other) : buffer(other.len) { std::copy(other.bytes, other.bytes + len, bytes); }
    buffer(buffer &&other) noexcept : bytes(std::exchange(other.bytes, nullptr)), len(std::exchange(other.len, 0)) {}
    buffer &operator=(buffer other) noexcept
    {
        std::swap(bytes, other.bytes);
        std::swap(len, other.len);
        return *this;
    }
    ~buffer() { delete[] bytes; }
    size_t size() const { return len; }
};

NOINLINE static buffer make(size_t len)
{
    buffer one(len);
    SHOW(&one);
    return one;
}

int main()
{
    std::vector<buffer> all;
    for (int i = 0; i < 40; i++)
        all.push_back(make(HIDE(i * 7)));
    buffer &third = all[3];
    third = *HIDE(&third);
    std::swap(all[4], all[5]);
    all.erase(all.begin() + 2, all.begin() + 9);
    auto copy = all;
    return HIDE(copy[3].size()) == 77;
}
