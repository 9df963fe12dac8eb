// A field of a block of the heap is read without the lock that it is written with.
// build: -pthread
// race: .hits
#include <pthread.h>
#include <stdlib.h>

struct stats {
    pthread_mutex_t lock;
    long misses;
    volatile long hits;
};

static void *count(void *argument)
{
    struct stats *stats = argument;
    pthread_mutex_lock(&stats->lock);
    stats->hits = 7; // RACE
    stats->misses = 3;
    pthread_mutex_unlock(&stats->lock);
    return NULL;
}

static void *show(void *argument)
{
    struct stats *stats = argument;
    return (void *)stats->hits; // RACE
}

int main(void)
{
    struct stats *stats = calloc(1, sizeof *stats);
    pthread_t a, b;
    pthread_mutex_init(&stats->lock, NULL);
    pthread_create(&a, NULL, count, stats);
    pthread_create(&b, NULL, show, stats);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    free(stats);
    return 0;
}
