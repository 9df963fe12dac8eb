// Two semaphores hand a slot to and fro.
// build: -pthread
#include <pthread.h>
#include <semaphore.h>

static sem_t empty, full;
int slot;
int sum;

static void *producer(void *unused)
{
    for (int i = 0; i < 10; i++) {
        sem_wait(&empty);
        slot = i;
        sem_post(&full);
    }
    return unused;
}

static void *consumer(void *unused)
{
    for (int i = 0; i < 10; i++) {
        sem_wait(&full);
        sum += slot;
        sem_post(&empty);
    }
    return unused;
}

int main(void)
{
    pthread_t a, b;
    sem_init(&empty, 0, 1);
    sem_init(&full, 0, 0);
    pthread_create(&a, 0, producer, 0);
    pthread_create(&b, 0, consumer, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return sum != 45;
}
