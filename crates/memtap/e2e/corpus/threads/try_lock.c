// A thread that works under a lock only where it gets it at once, and a lock that may be taken again.
// command: race
// expect: nothing
#define _GNU_SOURCE
#include <pthread.h>
#include "../hide.h"

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static long done, tried;

NOINLINE static void add(void)
{
    pthread_mutex_lock(&lock);
    *HIDE(&done) += 1;
    pthread_mutex_unlock(&lock);
}

static void *work(void *argument)
{
    for (int i = 0; i < 50; i++) {
        if (pthread_mutex_trylock(&lock) == 0) {
            *HIDE(&tried) += 1;
            add();
            pthread_mutex_unlock(&lock);
        } else {
            add();
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return done + tried == 77;
}
