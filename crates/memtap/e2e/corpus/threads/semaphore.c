// Two threads take turns by two semaphores.
// command: race
// expect: nothing
#include <pthread.h>
#include <semaphore.h>
#include "../hide.h"

static sem_t ping, pong;
static long ball;

static void *work(void *argument)
{
    for (int i = 0; i < 30; i++) {
        sem_wait(&ping);
        *HIDE(&ball) += 1;
        sem_post(&pong);
    }
    return NULL;
}

int main(void)
{
    pthread_t thread;
    sem_init(&ping, 0, 0);
    sem_init(&pong, 0, 1);
    pthread_create(&thread, NULL, work, NULL);
    for (int i = 0; i < 30; i++) {
        sem_wait(&pong);
        *HIDE(&ball) += 1;
        sem_post(&ping);
    }
    pthread_join(thread, NULL);
    return ball == 77;
}
