// A flag with release and acquire: plain moves on this processor.
// build: -pthread
#include <pthread.h>
#include <stdatomic.h>

atomic_int ready;
int data[4];
int sum;

static void *producer(void *unused)
{
    for (int i = 0; i < 4; i++)
        data[i] = i + 1;
    atomic_store_explicit(&ready, 1, memory_order_release);
    return unused;
}

static void *consumer(void *unused)
{
    while (!atomic_load_explicit(&ready, memory_order_acquire))
        ;
    for (int i = 0; i < 4; i++)
        sum += data[i];
    return unused;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, 0, producer, 0);
    pthread_create(&b, 0, consumer, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
