// A timer of a hundred thousand signals a second: a recorded program whose handlers take longer than that must get on all the same,
// and its sleeps must end as interrupted ones do, with the rest of the time.
// translate: only
// lackey: no
// stdout: 20100 10 sleeps were interrupted, all of 1000 s was left
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static volatile long ticks;

static void on_tick(int signal)
{
    (void)signal;
    ticks++;
}

int main(void)
{
    struct sigaction action;
    struct itimerspec every = {{0, 10000}, {0, 10000}}, never = {{0, 0}, {0, 0}};
    struct sigevent event;
    timer_t timer;
    volatile long sum = 0;
    int interrupted = 0, whole = 0;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_tick;
    sigaction(SIGRTMIN, &action, 0);
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGRTMIN;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &every, 0);
    for (long i = 1; i <= 200; i++)
        sum += i;
    for (int i = 0; i < 10; i++) {
        struct timespec wanted = {1000, 0}, left = {0, 0};
        interrupted += nanosleep(&wanted, &left) == -1 && errno == EINTR;
        whole += left.tv_sec >= 500 && left.tv_sec <= 1000;
    }
    timer_settime(timer, 0, &never, 0);
    timer_delete(timer);
    printf("%ld %d sleeps were interrupted, %s of 1000 s was left\n", sum, interrupted, whole == 10 && ticks >= 10 ? "all" : "not all");
    return 0;
}
