// Two builds of one program: -DSECOND is the change of which a reviewer wants to know what it costs.
// The first: 100 stores to table, 10 loads of limit, 40 stores to a block. The second: 350 stores to table, no limit, 60 stores to two
// blocks that other instructions of the same function allocate, and a new counter that is modified 7 times.
#include <stdlib.h>
#include "access.h"

static long table[400];
static long same;
#ifdef SECOND
static long hits;
#else
static long limit = 3;
#endif

#define FUNCTION __attribute__((noinline, noclone)) static

FUNCTION void fill(void)
{
#ifdef SECOND
    REPEAT(350) STORE(table[i_], i_);
    REPEAT(7) MODIFY("addq $1,", hits);
#else
    REPEAT(100) STORE(table[i_], i_);
    REPEAT(10) (void)LOAD(limit);
#endif
    REPEAT(5) STORE(same, 1);
}

FUNCTION void *make(void)
{
#ifdef SECOND
    long *other = malloc(160);
    REPEAT(20) STORE(other[i_], i_);
    free(other);
#endif
    long *block = malloc(320);
    REPEAT(40) STORE(block[i_], i_);
    return block;
}

int main(void)
{
    fill();
    free(make());
    return 0;
}
