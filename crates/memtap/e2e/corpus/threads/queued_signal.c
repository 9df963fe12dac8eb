// Results are announced by signals with a value, by one to the whole process, and by one that is read from a descriptor.
// command: race
// expect: nothing
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include "../hide.h"

static pthread_t first;
static long queued, sent, read_from;

static void *work(void *argument)
{
    union sigval value = {.sival_int = 3};
    *HIDE(&queued) = 1;
    pthread_sigqueue(first, SIGRTMIN, value);
    *HIDE(&sent) = 2;
    kill(getpid(), SIGUSR1);
    *HIDE(&read_from) = 3;
    kill(getpid(), SIGUSR2);
    return NULL;
}

static void set_of(sigset_t *set, int number)
{
    sigemptyset(set);
    sigaddset(set, number);
}

int main(void)
{
    sigset_t all, set;
    pthread_t thread;
    siginfo_t info;
    struct signalfd_siginfo got;
    int number, descriptor;
    set_of(&all, SIGRTMIN);
    sigaddset(&all, SIGUSR1);
    sigaddset(&all, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    set_of(&set, SIGUSR2);
    descriptor = signalfd(-1, &set, 0);
    first = pthread_self();
    pthread_create(&thread, NULL, work, NULL);
    set_of(&set, SIGRTMIN);
    sigwaitinfo(&set, &info);
    long value = HIDE(*HIDE(&queued));
    set_of(&set, SIGUSR1);
    sigwait(&set, &number);
    value += HIDE(*HIDE(&sent));
    if (read(descriptor, &got, sizeof got) != sizeof got)
        return 2;
    value += HIDE(*HIDE(&read_from));
    pthread_join(thread, NULL);
    return value == 77;
}
