// Paths and directories by std::filesystem.
// command: errors
// record: --data
// expect: nothing
#include <filesystem>
#include <string>
#include "../hide.h"

int main()
{
    size_t all = 0;
    std::filesystem::path path = "/usr";
    for (const auto &entry : std::filesystem::directory_iterator(path))
        all += entry.path().filename().string().size();
    path /= "share/a/../b";
    all += path.lexically_normal().string().size() + path.parent_path().string().size();
    return HIDE(all) == 77;
}
