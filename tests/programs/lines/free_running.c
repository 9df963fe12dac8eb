// Two threads count without turns: nobody knows how their accesses lay between two marks, but at most 2 x 1000 times the line
// changes its owner, and at least once.
// build: -pthread
#include <pthread.h>
#include "access.h"

static long counts[2] __attribute__((aligned(64)));

static void *count(void *which)
{
    long *mine = which;
    REPEAT(1000)
        MODIFY("addq $1,", *mine);
    return 0;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, 0, count, &counts[0]);
    pthread_create(&b, 0, count, &counts[1]);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
