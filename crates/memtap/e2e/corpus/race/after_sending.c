// What is written after a signal was sent is read after it was received.
// command: race
// expect: race late
#include <pthread.h>
#include <signal.h>
#include "../hide.h"

static pthread_t first;
static long early, late;

static void *work(void *argument)
{
    *HIDE(&early) = 1;
    pthread_kill(first, SIGUSR1);
    *HIDE(&late) = 2; // here
    return NULL;
}

int main(void)
{
    sigset_t set;
    int number;
    pthread_t thread;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    first = pthread_self();
    pthread_create(&thread, NULL, work, NULL);
    sigwait(&set, &number);
    long value = HIDE(*HIDE(&early)) + HIDE(*HIDE(&late)); // here
    pthread_join(thread, NULL);
    return value == 77;
}
