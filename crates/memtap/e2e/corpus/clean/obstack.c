// The C library's obstacks, which grow objects within larger blocks.
// command: errors
// expect: nothing
#include <obstack.h>
#include <stdlib.h>
#include "../hide.h"

#define obstack_chunk_alloc malloc
#define obstack_chunk_free free

int main(void)
{
    struct obstack stack;
    obstack_init(&stack);
    long all = 0;
    for (int i = 0; i < 100; i++) {
        for (int j = 0; j < i; j++)
            obstack_1grow(&stack, 'a' + j % 26);
        obstack_1grow(&stack, 0);
        char *text = obstack_finish(&stack);
        all += HIDE(text)[i / 2];
    }
    obstack_free(&stack, NULL);
    return all == 77;
}
