// Not a use after free: one thread frees what the next one allocates.
// build: -pthread
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "hidden.h"
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *shared;
static void *work(void *unused)
{
    for (int i = 0; i < 300; i++) {
        pthread_mutex_lock(&lock);
        free(shared);
        shared = malloc(100 + i % 7 * 50);
        memset(HIDDEN(shared), 1, 100);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}
int main(void)
{
    pthread_t threads[3];
    for (int t = 0; t < 3; t++)
        pthread_create(&threads[t], 0, work, 0);
    for (int t = 0; t < 3; t++)
        pthread_join(threads[t], 0);
    free(shared);
    return 0;
}
