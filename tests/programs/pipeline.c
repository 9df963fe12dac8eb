// Threads that wait for each other: mutex, condition variable, semaphore, barrier, spin lock, thread-local variables,
// and blocks that one thread allocates and another one frees.
// build: -pthread
// lackey: no
// stat: threads=4
// expect: handed size=4 loads=300 stores=300
// stdout: 44850 300 3
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include "access.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_spinlock_t spin;
static sem_t finished;
static int *queue[4], queued, taken;
int handed[300];
static long total, started;
static __thread long seen;

static void *consume(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&barrier);
    pthread_spin_lock(&spin);
    started++;
    pthread_spin_unlock(&spin);
    for (;;) {
        pthread_mutex_lock(&mutex);
        while (!queued && taken < 300)
            pthread_cond_wait(&changed, &mutex);
        if (taken == 300) {
            pthread_mutex_unlock(&mutex);
            break;
        }
        int *block = queue[--queued];
        taken++;
        seen++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
        __atomic_add_fetch(&total, *block, __ATOMIC_SEQ_CST);
        STORE(handed[*block], LOAD(handed[*block]) + 1);
        free(block);
    }
    sem_post(&finished);
    return (void *)seen;
}

int main(void)
{
    pthread_t threads[3];
    long all = 0;
    pthread_barrier_init(&barrier, 0, 4);
    pthread_spin_init(&spin, 0);
    sem_init(&finished, 0, 0);
    for (int n = 0; n < 3; n++)
        pthread_create(&threads[n], 0, consume, 0);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 300; i++) {
        int *block = malloc(sizeof *block);
        *block = i;
        pthread_mutex_lock(&mutex);
        while (queued == 4)
            pthread_cond_wait(&changed, &mutex);
        queue[queued++] = block;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
    }
    for (int n = 0; n < 3; n++)
        sem_wait(&finished);
    for (int n = 0; n < 3; n++) {
        void *result;
        pthread_join(threads[n], &result);
        all += (long)result;
    }
    printf("%ld %ld %ld\n", total, all, started);
    return 0;
}
