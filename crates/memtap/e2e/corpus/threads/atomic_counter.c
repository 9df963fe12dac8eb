// Threads count by an atomic addition.
// command: race
// expect: nothing
#include <pthread.h>
#include <stdatomic.h>

static atomic_long hits;

static void *work(void *argument)
{
    for (int i = 0; i < 100; i++)
        atomic_fetch_add_explicit(&hits, 1, memory_order_relaxed);
    return NULL;
}

int main(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return atomic_load(&hits) == 77;
}
