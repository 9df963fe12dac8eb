// Releases a list and reads the next pointer of each node before it is released.
// command: errors
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

struct node {
    long key, value;
    struct node *next;
};

int main(void)
{
    struct node *first = NULL;
    for (int i = 0; i < 5; i++) {
        struct node *node = HIDE(malloc(sizeof *node));
        node->key = node->value = i;
        node->next = first;
        first = node;
    }
    while (first) {
        struct node *next = HIDE(first)->next;
        free(first);
        first = next;
    }
    return 0;
}
