// Exceptions through frames with cleanups that call probed functions, 1000 times.
#include <cstdio>
#include <stdexcept>

#define KEPT extern "C" __attribute__((noipa))

volatile long helped;

KEPT void helper() { helped = helped + 1; }
KEPT void cleaned() { helper(); }

struct Guard {
    ~Guard() { cleaned(); }
};

KEPT void inner() { throw std::runtime_error("thrown"); }

KEPT void middle() {
    Guard first;
    Guard second;
    inner();
}

KEPT void outer() {
    try {
        middle();
    } catch (const std::exception &) {
        helper();
    }
}

int main() {
    for (int i = 0; i < 1000; i++) outer();
    std::printf("done %ld\n", (long)helped);
}
