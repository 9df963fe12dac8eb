// Two threads set the same field of a block of the heap.
// command: race
// expect: race
#include <pthread.h>
#include <stdlib.h>
#include "../hide.h"

struct stats {
    long reads, writes;
};

static void *work(void *argument)
{
    struct stats *stats = argument;
    for (int i = 0; i < 50; i++)
        HIDE(stats)->writes = i; // here
    return NULL;
}

int main(void)
{
    struct stats *stats = calloc(1, sizeof *stats);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, stats);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    free(stats);
    return 0;
}
