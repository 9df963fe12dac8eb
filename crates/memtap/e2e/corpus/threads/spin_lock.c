// A spin lock by an atomic exchange, released by a plain atomic store.
// command: race
// expect: nothing
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include "../hide.h"

static atomic_int lock;
static long hits;

static void *work(void *argument)
{
    for (int i = 0; i < 50; i++) {
        while (atomic_exchange_explicit(&lock, 1, memory_order_acquire))
            sched_yield();
        *HIDE(&hits) += 1;
        atomic_store_explicit(&lock, 0, memory_order_release);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return hits == 77;
}
