// A timer starts a thread, which uses what was there before the timer was set.
// command: race
// expect: nothing
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>
#include "../hide.h"

static long setting;
static volatile long seen;
static sem_t done;

static void use(union sigval value)
{
    seen = *HIDE(&setting);
    sem_post(&done);
}

int main(void)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = use};
    struct itimerspec soon = {.it_value = {.tv_nsec = 1000000}};
    sem_init(&done, 0, 0);
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    *HIDE(&setting) = 42;
    timer_settime(timer, 0, &soon, NULL);
    while (sem_wait(&done))
        ;
    return seen == 77;
}
