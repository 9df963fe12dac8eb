// A program as people write them: namespaces, templates, virtual calls, exceptions through destructors, recursion, threads
// under a mutex. How often each function is called stands in crates/memtap/e2e/tests/probe.rs, as callgrind counts it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#define KEPT __attribute__((noinline))

namespace app {

struct Node {
    int value;
    Node *left = nullptr, *right = nullptr;
    explicit Node(int value) : value(value) {}
};

KEPT void insert(Node *&node, int value) {
    if (!node) {
        node = new Node(value);
        return;
    }
    insert(value < node->value ? node->left : node->right, value);
}

KEPT int depth(Node *node) {
    return node ? 1 + std::max(depth(node->left), depth(node->right)) : 0;
}

KEPT int ackermann(int m, int n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

struct Guard {
    std::string text = "held";
    KEPT ~Guard() { text.clear(); }
};

template <class T>
KEPT T maybe(T x) {
    Guard guard;
    if (x % 3 == 0) throw std::runtime_error("three");
    return x;
}

KEPT int tries(int count) {
    int caught = 0;
    for (int i = 0; i < count; i++) {
        try {
            maybe<int>(i);
        } catch (const std::exception &) {
            caught++;
        }
    }
    return caught;
}

struct Base {
    virtual ~Base() = default;
    virtual int work(int) = 0;
};

struct Derived : Base {
    KEPT int work(int x) override;
};

int Derived::work(int x) { return x * 2; }

std::mutex mutex;
long total;

KEPT void add(long x) {
    std::lock_guard<std::mutex> lock(mutex);
    total += x;
}

KEPT void worker() {
    Derived derived;
    Base *base = &derived;
    for (int i = 0; i < 5000; i++) add(base->work(i));
    tries(300);
}

// Nine of ten are short.
KEPT void waits(int i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(i % 10 ? 1 : 20));
}

}  // namespace app

int main() {
    using namespace app;
    Node *root = nullptr;
    for (int i = 0; i < 1000; i++) insert(root, i * 7919 % 1000);
    int levels = depth(root), power = ackermann(2, 50);
    std::vector<std::thread> threads;
    for (int i = 0; i < 6; i++) threads.emplace_back(worker);
    for (auto &thread : threads) thread.join();
    for (int i = 0; i < 100; i++) waits(i);
    std::printf("%d %d %ld %d\n", levels, power, total, tries(30));
    return 7;
}
