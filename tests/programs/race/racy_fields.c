// Two threads count in different fields of a block, and one of them also in the other's.
// build: -pthread
// race: .hits
#include <pthread.h>
#include <stdlib.h>

struct stats {
    long misses, hits;
};

static void *first(void *argument)
{
    struct stats *stats = argument;
    stats->hits++; // RACE
    return 0;
}

static void *second(void *argument)
{
    struct stats *stats = argument;
    stats->misses++;
    stats->hits++; // RACE
    return 0;
}

int main(void)
{
    struct stats *stats = calloc(1, sizeof *stats);
    pthread_t a, b;
    pthread_create(&a, 0, first, stats);
    pthread_create(&b, 0, second, stats);
    pthread_join(a, 0);
    pthread_join(b, 0);
    free(stats);
    return 0;
}
