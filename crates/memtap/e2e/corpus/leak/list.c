// The head of a list is lost: it is lost itself, its other nodes with it.
// command: errors
// record: --data
// expect: leak definite
// expect: leak indirect
#include <stdlib.h>
#include "../hide.h"

struct node {
    struct node *next;
    long value;
};

static struct node *volatile head;

int main(void)
{
    for (int i = 0; i < 5; i++) {
        struct node *node = malloc(sizeof *node); // here
        node->value = i;
        node->next = head;
        head = node;
    }
    head = NULL;
    return 0;
}
