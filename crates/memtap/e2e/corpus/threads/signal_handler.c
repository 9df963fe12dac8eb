// A thread sends the main one a signal, whose handler takes the result.
// command: race
// expect: nothing
#include <pthread.h>
#include <signal.h>
#include "../hide.h"

static pthread_t first;
static long result;
static volatile long seen;

static void take(int number)
{
    seen = *HIDE(&result);
}

static void *work(void *argument)
{
    *HIDE(&result) = 42;
    pthread_kill(first, SIGUSR1);
    return NULL;
}

int main(void)
{
    sigset_t set, before;
    pthread_t thread;
    struct sigaction action = {.sa_handler = take};
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    sigaction(SIGUSR1, &action, NULL);
    first = pthread_self();
    pthread_create(&thread, NULL, work, NULL);
    while (!seen)
        sigsuspend(&before);
    pthread_join(thread, NULL);
    return seen == 77;
}
