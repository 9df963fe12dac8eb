// A list whose elements are freed before the next one is read from them.
// stale: <freed:@make> by release loads=3
#include <stdlib.h>
#include "hidden.h"
struct node { long value[4]; struct node *next; };
__attribute__((noinline, noclone)) static struct node *make(struct node *next)
{
    struct node *node = malloc(sizeof *node);
    node->next = next;
    return node;
}
__attribute__((noinline, noclone)) static void release(struct node *node)
{
    while (node) {
        free(node);
        node = HIDDEN(node);
        node = LOAD(node->next);
    }
}
int main(void)
{
    release(make(make(make(0))));
    return 0;
}
