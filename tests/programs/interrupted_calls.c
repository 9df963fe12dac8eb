// Calls that wait, and signals that come while they do: a call whose signal restarts is made again, another one ends with EINTR, and none
// waits for ever because its signal came right before it. A timer that is faster than a call hits every moment of it.
// lackey: no
// stdout: restarted 200, ended 200, hits more than 200, sums 2000
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t hits;
static int ends[2], back[2];

static void on_signal(int signal)
{
    (void)signal;
    hits++;
}

static void handle(int flags)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = flags;
    sigaction(SIGALRM, &action, 0);
}

static void every(long microseconds)
{
    struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &timer, 0);
}

// Answers each byte after a while.
static void *answer(void *unused)
{
    char byte;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, 0);
    while (read(ends[0], &byte, 1) == 1) {
        struct timespec wait = {0, 300000};
        nanosleep(&wait, 0);
        if (write(back[1], &byte, 1) != 1)
            break;
    }
    return unused;
}

int main(void)
{
    pthread_t thread;
    int restarted = 0, ended = 0, sums = 0;
    sigset_t alarm;
    char byte = 1;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, 0);
    if (pipe(ends) || pipe(back) || pthread_create(&thread, 0, answer, 0))
        return 1;
    pthread_sigmask(SIG_UNBLOCK, &alarm, 0);
    handle(SA_RESTART);
    every(200);
    for (int i = 0; i < 200; i++) {
        while (write(ends[1], &byte, 1) != 1)
            ;
        restarted += read(back[0], &byte, 1) == 1;
    }
    handle(0);
    every(500);
    while (ended < 200) {
        // Nothing comes: only the signal ends it.
        ended += read(back[0], &byte, 1) == -1 && errno == EINTR;
    }
    // Calls that never wait, between all the signals.
    for (int i = 0; i < 2000; i++)
        sums += getppid() > 0 || errno == 0;
    every(0);
    close(ends[1]);
    pthread_join(thread, 0);
    printf("restarted %d, ended %d, hits more than %d, sums %d\n", restarted, ended, hits > 200 ? 200 : hits, sums);
    return 0;
}
