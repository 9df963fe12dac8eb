// A shared pointer and its copies release their object once.
// command: errors
// expect: nothing
#include <memory>
#include <vector>
#include "../hide.h"

int main()
{
    auto p = std::make_shared<std::vector<int>>(20, 1);
    std::vector<std::shared_ptr<std::vector<int>>> all(9, p);
    all.erase(all.begin() + 2);
    p.reset();
    return HIDE(all[3]->at(5)) == 77;
}
