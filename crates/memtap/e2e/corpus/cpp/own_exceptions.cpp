// Exceptions of the program's own that hold strings and vectors, kept beyond their handlers and thrown again.
// command: errors
// record: --data
// expect: nothing
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>
#include "../hide.h"

struct failure : std::runtime_error {
    std::vector<std::string> notes;
    explicit failure(int count) : std::runtime_error("a failure that is described at length"), notes(count, std::string(40, 'x'))
    {
    }
};

NOINLINE static std::exception_ptr fail(int count)
{
    try {
        throw failure(count);
    } catch (...) {
        return std::current_exception();
    }
}

int main()
{
    size_t all = 0;
    for (int i = 0; i < 5; i++) {
        std::exception_ptr kept = fail(HIDE(i));
        try {
            std::rethrow_exception(kept);
        } catch (const failure &one) {
            all += one.notes.size();
        }
    }
    return HIDE(all) == 77;
}
