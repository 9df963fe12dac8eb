// Follows a pointer in bytes that are text.
// command: errors
// expect: wild
#include <string.h>
#include "../hide.h"

struct node {
    struct node *next;
    long value;
};

int main(void)
{
    struct node node;
    memset(HIDE(&node), 'x', sizeof node);
    return HIDE(&node)->next->value == 77; // here
}
