// A thread tells the main one by a signal that its result is there.
// command: race
// expect: nothing
#include <pthread.h>
#include <signal.h>
#include "../hide.h"

static pthread_t first;
static long result;

static void *work(void *argument)
{
    *HIDE(&result) = 42;
    pthread_kill(first, SIGUSR1);
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
    long value = HIDE(*HIDE(&result));
    pthread_join(thread, NULL);
    return value == 77;
}
