// All members of a struct are set, but not the bytes between them.
// command: errors
// expect: nothing
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

struct entry {
    char tag;
    long value;
};

int main(void)
{
    struct entry *a = HIDE(malloc(sizeof *a)), *b = HIDE(malloc(sizeof *b));
    a->tag = 'x';
    a->value = 3;
    memcpy(b, HIDE(a), HIDE(sizeof *b));
    b = HIDE(b);
    int is_large = 0;
    if (b->tag == 'x' && b->value > 2)
        is_large = HIDE(1);
    free(a);
    free(b);
    return is_large == 77;
}
