// Readers and a writer with a lock for both.
// command: race
// expect: nothing
#include <pthread.h>
#include "../hide.h"

static long version;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static void *look(void *argument)
{
    long last = 0;
    for (int i = 0; i < 40; i++) {
        pthread_rwlock_rdlock(&lock);
        last = HIDE(*HIDE(&version));
        pthread_rwlock_unlock(&lock);
    }
    return last == 77 ? argument : NULL;
}

static void *change(void *argument)
{
    for (int i = 0; i < 40; i++) {
        pthread_rwlock_wrlock(&lock);
        *HIDE(&version) = i;
        pthread_rwlock_unlock(&lock);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, i ? look : change, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
