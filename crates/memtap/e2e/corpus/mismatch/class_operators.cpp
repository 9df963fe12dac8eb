// A class with operators new and delete of its own, which keep objects in a list of free ones.
// command: errors
// expect: nothing
#include <cstdlib>
#include "../hide.h"

struct node {
    node *next;
    long value;
    static node *spare;
    static void *operator new(std::size_t size)
    {
        if (node *first = spare) {
            spare = first->next;
            return first;
        }
        return malloc(size);
    }
    static void operator delete(void *block)
    {
        node *first = static_cast<node *>(block);
        first->next = spare;
        spare = first;
    }
};
node *node::spare;

int main()
{
    for (int i = 0; i < 10; i++) {
        node *a = HIDE(new node{nullptr, i}), *b = HIDE(new node{a, i});
        delete a;
        delete b;
    }
    while (node *first = node::spare) {
        node::spare = first->next;
        free(first);
    }
    return 0;
}
