// Two threads take turns with counters on the heap: two fields of one block, and elements of an array that are one thread's each.
// build: -pthread
#include <pthread.h>
#include <stdlib.h>

#define TURNS 10

struct stats {
    long hits, misses;
};
struct worker {
    long jobs;
    long steps;
};

static struct stats *stats;
static struct worker *workers;
static pthread_barrier_t turn;

static void __attribute__((noinline)) count_hit(struct stats *of, struct worker *self)
{
    of->hits++;
    self->jobs++;
}

static void __attribute__((noinline)) count_miss(struct stats *of, struct worker *self)
{
    of->misses++;
    self->jobs++;
}

static void *first(void *unused)
{
    for (int i = 0; i < TURNS; i++) {
        count_hit(stats, &workers[0]);
        pthread_barrier_wait(&turn);
        pthread_barrier_wait(&turn);
    }
    return unused;
}

static void *second(void *unused)
{
    for (int i = 0; i < TURNS; i++) {
        pthread_barrier_wait(&turn);
        count_miss(stats, &workers[1]);
        pthread_barrier_wait(&turn);
    }
    return unused;
}

int main(void)
{
    pthread_t a, b;
    stats = aligned_alloc(64, 64);
    workers = aligned_alloc(64, sizeof *workers * 4);
    pthread_barrier_init(&turn, 0, 2);
    pthread_create(&a, 0, first, 0);
    pthread_create(&b, 0, second, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
