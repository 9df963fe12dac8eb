// Releases a list and reads the next pointer of each node after it is released.
// command: errors
// expect: use_after_free
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
    for (struct node *node = first; node; node = HIDE(node)->next) // here
        free(HIDE(node));
    return 0;
}
