// Runs until its standard input ends: threads, exceptions through several frames, recursion, a long wait. Every result
// is checked; prints what it counted.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <unistd.h>
#include <vector>

#define KEPT __attribute__((noinline, noipa))

static std::atomic<bool> stop{false};
static std::atomic<long> rounds{0}, caught{0};

KEPT int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
KEPT int thrower(int n) {
    if (n == 0) throw std::runtime_error("bottom");
    return thrower(n - 1) + 1;
}
KEPT int cleaned(int n) {
    std::vector<int> held(4, n); // to be destroyed while unwinding
    return thrower(n) + held[0];
}
KEPT void catcher(int n) {
    try {
        cleaned(n);
        abort();
    } catch (const std::runtime_error &) {
        caught++;
    }
}
KEPT void round_of_work() {
    if (fib(10) != 55) abort();
    catcher(5);
    rounds++;
}
KEPT void worker() {
    while (!stop) round_of_work();
}
// Under way for the whole run: its return address is replaced only if it is called after the attachment.
KEPT void long_call(int milliseconds) { usleep(milliseconds * 1000); }
KEPT void sleeper() {
    while (!stop) long_call(300);
}
KEPT void wait_for_end() {
    char c;
    while (read(0, &c, 1) > 0) {
    }
}

int main() {
    std::thread a(worker), b(sleeper);
    printf("ready\n");
    fflush(stdout);
    wait_for_end();
    stop = true;
    a.join();
    b.join();
    if (rounds != caught) abort();
    printf("fine\n");
    return 0;
}
