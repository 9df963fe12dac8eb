// Data is published by a flag that is stored and loaded without any order.
// command: race
// expect: race data
// memtap misses: every atomic access is treated as sequentially consistent
#include <pthread.h>
#include <stdatomic.h>
#include "../hide.h"

static long data;
static atomic_int is_ready;

static void *publish(void *argument)
{
    *HIDE(&data) = 42; // here
    atomic_exchange_explicit(&is_ready, 1, memory_order_relaxed);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, publish, NULL);
    while (!atomic_load_explicit(&is_ready, memory_order_relaxed))
        ;
    long value = HIDE(*HIDE(&data)); // here
    pthread_join(thread, NULL);
    return value == 77;
}
