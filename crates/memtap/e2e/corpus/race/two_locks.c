// Two threads count under a lock each, which are not the same.
// command: race
// expect: race hits
#include <pthread.h>
#include "../hide.h"

static long hits;
static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

static void *work(void *argument)
{
    for (int i = 0; i < 100; i++) {
        pthread_mutex_lock(argument);
        *HIDE(&hits) += 1; // here
        pthread_mutex_unlock(argument);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, &locks[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return hits == 77;
}
