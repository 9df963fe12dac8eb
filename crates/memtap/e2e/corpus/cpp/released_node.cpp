// A loop over a list erases a node and goes on from it.
// command: errors
// expect: use_after_free
// allowed: wild
#include <list>
#include "../hide.h"

int main()
{
    std::list<long> list(9, 3);
    long seen = 0;
    for (auto at = list.begin(); seen < 5; ++*HIDE(&at), ++seen)
        if (seen == 3) {
            list.erase(at);
            SHOW(&list);
        }
    return HIDE(seen) == 77;
}
