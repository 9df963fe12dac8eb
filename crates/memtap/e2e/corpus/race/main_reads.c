// The main thread reads a result before it has waited for the thread that computes it.
// command: race
// expect: race result
#include <pthread.h>
#include "../hide.h"

static long result;

static void *work(void *argument)
{
    *HIDE(&result) = 42; // here
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    long early = HIDE(*HIDE(&result)); // here
    pthread_join(thread, NULL);
    return early == 77;
}
