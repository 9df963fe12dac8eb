// An object without a name, of whose parts each has one, is copied whole.
// command: errors
// expect: nothing
#include <cstdio>
#include <cstring>
#include "../hide.h"

struct entry {
    int id;
    char text[300];
    long more[20];
};

static entry table[3];

NOINLINE static long sum(int at)
{
    auto [id, text, more] = table[HIDE(at)];
    return id + text[HIDE(3)] + more[HIDE(4)];
}

int main()
{
    for (int i = 0; i < 3; i++) {
        table[i].id = i;
        std::memset(HIDE((char *)table[i].text), i, sizeof table[i].text);
        table[i].more[4] = i;
    }
    std::printf("%ld\n", sum(1) + sum(2));
    return 0;
}
