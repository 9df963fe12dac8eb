// A producer and a consumer with a queue, a lock and two conditions.
// command: race
// expect: nothing
#include <pthread.h>
#include "../hide.h"

static int queue[4], first, count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;

static void *produce(void *argument)
{
    for (int i = 0; i < 60; i++) {
        pthread_mutex_lock(&lock);
        while (count == 4)
            pthread_cond_wait(&not_full, &lock);
        queue[(first + count++) % 4] = i;
        pthread_cond_signal(&not_empty);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int main(void)
{
    pthread_t thread;
    long sum = 0;
    pthread_create(&thread, NULL, produce, NULL);
    for (int i = 0; i < 60; i++) {
        pthread_mutex_lock(&lock);
        while (count == 0)
            pthread_cond_wait(&not_empty, &lock);
        sum += queue[first];
        first = (first + 1) % 4;
        count--;
        pthread_cond_signal(&not_full);
        pthread_mutex_unlock(&lock);
    }
    pthread_join(thread, NULL);
    return sum == 77;
}
