// Loads a member of a struct through null.
// command: errors
// expect: wild
#include <stdlib.h>
#include "../hide.h"

struct node {
    long values[20];
    struct node *next;
};

int main(void)
{
    struct node *node = HIDE(calloc(1, sizeof *node));
    struct node *second = HIDE(node->next);
    node->next = HIDE(second->next); // here
    free(node);
    return 0;
}
