// Threads, exceptions, recursion, longjmp and tail calls, each function called a number of times that is known.
#include <csetjmp>
#include <cstdio>
#include <stdexcept>
#include <thread>
#include <vector>

#define KEPT extern "C" __attribute__((noinline))

volatile long sink;
jmp_buf place;

// fib(12) calls itself 465 times in all.
KEPT long fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

KEPT void leaf(int n) {
    for (int i = 0; i < n; i++) sink = sink + i;
}

KEPT void thrower(int depth) {
    leaf(1);
    if (depth == 0) throw std::runtime_error("thrown");
    thrower(depth - 1);
    leaf(1);
}

KEPT void catcher() {
    try {
        thrower(3);
    } catch (const std::exception &) {
        leaf(2);
    }
}

KEPT void jumper(int depth) {
    if (depth == 0) longjmp(place, 1);
    jumper(depth - 1);
    leaf(1);
}

KEPT void jump_catcher() {
    if (setjmp(place) == 0) jumper(4);
    leaf(3);
}

KEPT void slow() {
    for (int i = 0; i < 200000; i++) sink = sink + i;
}

KEPT void worker(int rounds) {
    for (int i = 0; i < rounds; i++) {
        leaf(10);
        catcher();
    }
}

int main() {
    sink = fib(12);                                   // fib 465
    for (int i = 0; i < 100; i++) catcher();          // catcher 100, thrower 400, leaf 500
    for (int i = 0; i < 50; i++) jump_catcher();      // jump_catcher 50, jumper 250, leaf 50
    for (int i = 0; i < 20; i++) slow();              // slow 20
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) threads.emplace_back(worker, 1000); // worker 4, catcher 4000, thrower 16000, leaf 24000
    for (auto &thread : threads) thread.join();
    std::puts("done");
}
