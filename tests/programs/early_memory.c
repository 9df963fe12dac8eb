// The heap of an allocator that mapped its memory before recording began is anonymous memory, and not the tracer's.
// links: early_pages
// status: 0
#include <stdlib.h>
#include "access.h"

int main(void)
{
    long *words = malloc(100 * sizeof *words);
    for (long turn = 0; turn < 100; turn++) STORE(words[turn], turn);
    free(words);
    return 0;
}
