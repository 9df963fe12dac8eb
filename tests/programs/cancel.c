// Threads that are cancelled, signalled and forked from: pthread_cancel, pthread_kill, fork in a thread, a timer's thread.
// build: -pthread
// lackey: no
// expect: counter size=4 loads=2 modifies=42
// stdout: cancelled 3, cleaned 3, signalled 1, child 5, ticks 1, counter 34
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "access.h"

int counter;
static int cleaned, ready, signalled, ticks;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void clean(void *unused)
{
    (void)unused;
    __atomic_add_fetch(&cleaned, 1, __ATOMIC_SEQ_CST);
}

static void *endless(void *unused)
{
    pthread_cleanup_push(clean, 0);
    REPEAT(10) MODIFY("lock incl", counter);
    __atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
    for (;;)
        pause();
    pthread_cleanup_pop(1);
    return unused;
}

static void on_signal(int number)
{
    (void)number;
    MODIFY("lock incl", counter);
    __atomic_add_fetch(&signalled, 1, __ATOMIC_SEQ_CST);
}

static void *forking(void *unused)
{
    (void)unused;
    pid_t child = fork();
    if (child == 0) {
        // Private: the parent does not see these.
        REPEAT(10) MODIFY("lock incl", counter);
        int *block = malloc(100);
        *block = LOAD(counter) >= 40 ? 5 : 6;
        _exit(*block);
    }
    int status;
    waitpid(child, &status, 0);
    return (void *)(long)WEXITSTATUS(status);
}

static void on_timer(union sigval value)
{
    MODIFY("lock addl $3,", counter);
    pthread_mutex_lock(&mutex);
    ticks += value.sival_int;
    pthread_mutex_unlock(&mutex);
}

int main(void)
{
    pthread_t threads[3], forker;
    void *result;
    int cancelled = 0;
    for (int n = 0; n < 3; n++)
        pthread_create(&threads[n], 0, endless, 0);
    while (__atomic_load_n(&ready, __ATOMIC_SEQ_CST) < 3)
        usleep(1000);
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, 0);
    pthread_kill(threads[1], SIGUSR1);
    while (__atomic_load_n(&signalled, __ATOMIC_SEQ_CST) < 1)
        usleep(1000);

    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_timer, .sigev_value = {1}};
    struct itimerspec once = {.it_value = {0, 1000000}};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &once, 0))
        return 1;
    for (int done = 0; !done; usleep(1000)) {
        pthread_mutex_lock(&mutex);
        done = ticks;
        pthread_mutex_unlock(&mutex);
    }
    timer_delete(timer);

    pthread_create(&forker, 0, forking, 0);
    pthread_join(forker, &result);
    for (int n = 0; n < 3; n++) {
        void *how;
        pthread_cancel(threads[n]);
        pthread_join(threads[n], &how);
        cancelled += how == PTHREAD_CANCELED;
    }
    printf("cancelled %d, cleaned %d, signalled %d, child %ld, ticks %d, counter %d\n", cancelled, cleaned, signalled,
           (long)result, ticks, LOAD(counter));
    return 0;
}
