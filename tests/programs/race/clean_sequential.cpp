// Sequentially consistent stores and compare-and-swap.
// build: -pthread
#include <atomic>
#include <thread>

struct Node {
    int value;
    Node *next;
};
std::atomic<Node *> top{nullptr};
std::atomic<bool> done{false};
Node nodes[16];
long sum;

int main()
{
    std::thread pusher([] {
        for (int i = 0; i < 16; i++) {
            nodes[i].value = i;
            nodes[i].next = top;
            while (!top.compare_exchange_weak(nodes[i].next, &nodes[i]))
                ;
        }
        done = true;
    });
    std::thread popper([] {
        while (!done)
            ;
        for (Node *node = top; node; node = node->next)
            sum += node->value;
    });
    pusher.join();
    popper.join();
    return sum != 120;
}
