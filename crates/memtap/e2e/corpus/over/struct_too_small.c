// A block has the size of a pointer instead of that of the struct; its third member lies behind it.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include "../hide.h"

struct node {
    long key;
    long weight;
    struct node *next;
};

int main(void)
{
    struct node *node = HIDE(malloc(2 * sizeof node));
    node->key = 1;
    node->weight = 2;
    node = HIDE(node);
    node->next = HIDE(NULL); // here
    SHOW(node);
    free(node);
    return 0;
}
