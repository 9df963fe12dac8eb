// A result is written after the lock was released.
// command: race
// expect: race result
#include <pthread.h>
#include "../hide.h"

static long result;
static int is_done;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *argument)
{
    pthread_mutex_lock(&lock);
    *HIDE(&is_done) = 1;
    pthread_mutex_unlock(&lock);
    *HIDE(&result) = 42; // here
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    long seen = 0;
    pthread_mutex_lock(&lock);
    int done = HIDE(*HIDE(&is_done));
    pthread_mutex_unlock(&lock);
    seen = HIDE(*HIDE(&result)); // here
    pthread_join(thread, NULL);
    return seen + done == 77;
}
