// Pointers that carry a mark in their lowest bit.
// command: errors
// record: --data
// expect: nothing
#include <stdint.h>
#include <stdlib.h>
#include "../hide.h"

struct node {
    uintptr_t next;
    long value;
};

int main(void)
{
    uintptr_t first = 0;
    for (int i = 0; i < 20; i++) {
        struct node *node = HIDE(malloc(sizeof *node));
        node->next = first;
        node->value = i;
        first = (uintptr_t)node | (i & 1);
    }
    long all = 0;
    while (first) {
        struct node *node = (struct node *)(first & ~(uintptr_t)1);
        all += node->value;
        first = node->next;
        free(node);
    }
    return all == 77;
}
