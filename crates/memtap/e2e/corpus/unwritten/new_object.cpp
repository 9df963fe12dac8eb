// A constructor forgets a member, which decides.
// command: errors
// expect: uninitialised
// memtap misses in: gcc-O2 clang-O1 clang-O2: the compiler turns the decision into an addition
#include "../hide.h"

struct session {
    long hits;
    bool is_open;
    session() : hits(0) {}
    NOINLINE long count() const
    {
        if (is_open) // here
            return hits + 1;
        return hits;
    }
};

int main()
{
    session *s = HIDE(new session());
    long count = s->count();
    delete s;
    return count == 77;
}
