// Four threads count under one lock.
// command: race
// expect: nothing
#include <pthread.h>
#include "../hide.h"

static long hits;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *argument)
{
    for (int i = 0; i < 100; i++) {
        pthread_mutex_lock(&lock);
        *HIDE(&hits) += 1;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return hits == 77;
}
