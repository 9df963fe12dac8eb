// A pool keeps released objects in a list through their first word, and gives them again.
// command: errors
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

union slot {
    union slot *next;
    double values[4];
};

int main(void)
{
    union slot *slots = HIDE(malloc(20 * sizeof *slots)), *spare = NULL;
    for (int i = 0; i < 20; i++) {
        slots[i].next = spare;
        spare = &slots[i];
    }
    for (int i = 0; i < 100; i++) {
        union slot *one = HIDE(spare);
        spare = one->next;
        one->values[0] = one->values[3] = i;
        SHOW(one);
        one->next = spare;
        spare = one;
    }
    free(slots);
    return 0;
}
