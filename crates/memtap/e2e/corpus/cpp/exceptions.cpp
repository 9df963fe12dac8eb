// Exceptions that are thrown through functions with objects, and carry strings.
// command: errors
// record: --data
// expect: nothing
#include <stdexcept>
#include <string>
#include <vector>
#include "../hide.h"

NOINLINE static int fail(int depth)
{
    std::vector<std::string> names(depth, "a string that is long enough for the heap");
    if (depth == 5)
        throw std::runtime_error(names[3] + " and more");
    return fail(depth + 1) + names.size();
}

int main()
{
    size_t all = 0;
    for (int i = 0; i < 3; i++) {
        try {
            all += fail(HIDE(0));
        } catch (const std::exception &error) {
            all += std::string(error.what()).size();
        }
    }
    return HIDE(all) == 77;
}
