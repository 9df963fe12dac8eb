// A semaphore that lets two in.
// build: -pthread
// race: users
#include <pthread.h>
#include <semaphore.h>

static sem_t places;
int users;

static void *use(void *unused)
{
    sem_wait(&places);
    users++; // RACE
    return unused;
}

int main(void)
{
    pthread_t a, b;
    sem_init(&places, 0, 2);
    pthread_create(&a, 0, use, 0);
    pthread_create(&b, 0, use, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
