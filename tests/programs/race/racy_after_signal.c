// The producer goes on writing after it has signalled.
// build: -pthread
// race: slot
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t full = PTHREAD_COND_INITIALIZER;
static int ready;
int slot;
volatile int seen;

static void *producer(void *unused)
{
    pthread_mutex_lock(&lock);
    slot = 1;
    ready = 1;
    pthread_cond_signal(&full);
    pthread_mutex_unlock(&lock);
    slot = 2; // RACE
    return unused;
}

static void *consumer(void *unused)
{
    pthread_mutex_lock(&lock);
    while (!ready)
        pthread_cond_wait(&full, &lock);
    pthread_mutex_unlock(&lock);
    seen = slot; // RACE
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
