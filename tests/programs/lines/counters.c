// Two threads take turns: two counters in one line, one that both use, two that lie apart, and a block of two slots.
// build: -pthread
#include <pthread.h>
#include <stdlib.h>
#include "access.h"

#define TURNS 10

static struct { long hits, misses; } counters __attribute__((aligned(64)));
static long total __attribute__((aligned(64)));
static struct { long mine; char rest[56]; long yours; char more[56]; } apart __attribute__((aligned(64)));
static long *slots;
static pthread_barrier_t turn;

// A line changes its owner 19 times: it is used 20 times in turn, and nobody has it before the first.
static void *first(void *unused)
{
    long *slot = slots;
    REPEAT(TURNS) {
        MODIFY("addq $1,", counters.hits);
        MODIFY("addq $1,", total);
        MODIFY("addq $1,", apart.mine);
        MODIFY("addq $1,", slot[0]);
        pthread_barrier_wait(&turn);
        pthread_barrier_wait(&turn);
    }
    return unused;
}

static void *second(void *unused)
{
    long *slot = slots;
    REPEAT(TURNS) {
        pthread_barrier_wait(&turn);
        MODIFY("addq $1,", counters.misses);
        MODIFY("addq $1,", total);
        MODIFY("addq $1,", apart.yours);
        MODIFY("addq $1,", slot[1]);
        pthread_barrier_wait(&turn);
    }
    return unused;
}

int main(void)
{
    pthread_t a, b;
    slots = aligned_alloc(64, 64);
    pthread_barrier_init(&turn, 0, 2);
    pthread_create(&a, 0, first, 0);
    pthread_create(&b, 0, second, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
