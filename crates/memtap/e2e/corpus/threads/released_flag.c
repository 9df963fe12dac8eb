// Data is published by a flag that is stored by release and loaded by acquire.
// command: race
// expect: nothing
#include <pthread.h>
#include <stdatomic.h>
#include "../hide.h"

static long data;
static atomic_int is_ready;

static void *publish(void *argument)
{
    *HIDE(&data) = 42;
    atomic_store_explicit(&is_ready, 1, memory_order_release);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, publish, NULL);
    while (!atomic_load_explicit(&is_ready, memory_order_acquire))
        ;
    long value = HIDE(*HIDE(&data));
    pthread_join(thread, NULL);
    return value == 77;
}
