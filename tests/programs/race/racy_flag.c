// A plain flag hands data over.
// build: -pthread
// race: data
// race: ready
#include <pthread.h>

int data;
volatile int ready;
volatile int seen;

static void *producer(void *unused)
{
    data = 42; // RACE
    ready = 1; // RACE
    return unused;
}

static void *consumer(void *unused)
{
    for (int i = 0; i < 1000 && !ready; i++) // RACE
        ;
    seen = data; // RACE
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
