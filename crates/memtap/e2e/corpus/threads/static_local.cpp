// Threads that need a static object of a function, which is made by the first.
// command: race
// expect: nothing
#include <string>
#include <thread>
#include "../hide.h"

NOINLINE static const std::string &name()
{
    static const std::string made(HIDE(50), 'x');
    return made;
}

int main()
{
    std::thread a([] { SHOW(name().c_str()); }), b([] { SHOW(name().c_str()); });
    a.join();
    b.join();
    return name().size() == 77;
}
