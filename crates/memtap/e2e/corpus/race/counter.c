// Two threads count without a lock.
// command: race
// expect: race hits
#include <pthread.h>
#include "../hide.h"

static long hits;

static void *work(void *argument)
{
    for (int i = 0; i < 100; i++)
        *HIDE(&hits) += 1; // here
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return hits == 77;
}
