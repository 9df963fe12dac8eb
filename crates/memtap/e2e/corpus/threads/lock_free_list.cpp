// Threads push nodes to a list by compare and exchange, and one takes all of them.
// command: race
// expect: nothing
#include <atomic>
#include <thread>
#include "../hide.h"

struct node {
    long value;
    node *next;
};

static std::atomic<node *> head;

NOINLINE static void push(long value)
{
    node *one = HIDE(new node());
    one->value = value;
    one->next = head.load(std::memory_order_relaxed);
    while (!head.compare_exchange_weak(one->next, one, std::memory_order_release, std::memory_order_relaxed))
        ;
}

NOINLINE static long take()
{
    long all = 0;
    for (node *at = head.exchange(nullptr, std::memory_order_acquire); at;) {
        node *next = at->next;
        all += at->value;
        delete at;
        at = next;
    }
    return all;
}

int main()
{
    auto work = [] {
        for (int i = 0; i < 30; i++)
            push(i);
    };
    std::thread a(work), b(work), c([] {
        for (int i = 0; i < 5; i++)
            SHOW(take());
    });
    a.join();
    b.join();
    c.join();
    return take() == 77;
}
