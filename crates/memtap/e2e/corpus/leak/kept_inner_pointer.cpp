// An object is known by a pointer to its second base alone, and never released: what is left is a pointer into its middle.
// command: errors
// record: --data
// expect: leak possible
#include "../hide.h"

struct named {
    long id = 1;
    virtual ~named() = default;
};
struct listener {
    long calls = 0;
    virtual ~listener() = default;
};
struct both : named, listener {
    long values[9] = {};
};

static listener *volatile kept;

NOINLINE static void make()
{
    kept = HIDE(new both()); // here
}

int main()
{
    make();
    return 0;
}
