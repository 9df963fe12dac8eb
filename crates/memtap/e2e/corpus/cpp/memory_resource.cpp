// Containers whose memory comes from a buffer that goes with it.
// command: errors
// record: --data
// expect: nothing
#include <memory_resource>
#include <string>
#include <vector>
#include "../hide.h"

int main()
{
    std::pmr::monotonic_buffer_resource buffer(1000);
    std::pmr::vector<std::pmr::string> names(&buffer);
    for (int i = 0; i < 50; i++)
        names.emplace_back(std::pmr::string(std::string(i, 'x'), &buffer));
    return HIDE(names.size()) == 77;
}
