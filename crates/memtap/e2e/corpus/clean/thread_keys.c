// Threads keep blocks under a key, whose destructor releases them when a thread ends.
// command: errors
// expect: nothing
#include <pthread.h>
#include <stdlib.h>
#include "../hide.h"

static pthread_key_t key;

static void *work(void *argument)
{
    long *own = HIDE(malloc(10 * sizeof *own));
    pthread_setspecific(key, own);
    for (int i = 0; i < 10; i++)
        ((long *)pthread_getspecific(key))[i] = i;
    return NULL;
}

int main(void)
{
    pthread_t threads[3];
    pthread_key_create(&key, free);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    pthread_key_delete(key);
    return 0;
}
