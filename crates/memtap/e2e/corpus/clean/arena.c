// An arena hands out parts of large blocks and releases all at once.
// command: errors
// record: --data
// expect: nothing
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

struct chunk {
    struct chunk *before;
    size_t used, size;
    char bytes[];
};

static struct chunk *last;

NOINLINE static void *take(size_t size)
{
    size = (size + 15) & ~(size_t)15;
    if (!last || last->used + size > last->size) {
        size_t room = size > 1000 ? size : 1000;
        struct chunk *chunk = malloc(sizeof *chunk + room);
        *chunk = (struct chunk){last, 0, room};
        last = chunk;
    }
    void *part = last->bytes + last->used;
    last->used += size;
    return part;
}

int main(void)
{
    for (int i = 1; i < 200; i++)
        memset(HIDE(take(i)), i, i);
    while (last) {
        struct chunk *before = last->before;
        free(last);
        last = before;
    }
    return 0;
}
