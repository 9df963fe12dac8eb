// Four threads that each count in a watched variable of their own, while a timer's signals interrupt them wherever they are,
// in checks, too, and count in another one; all variables on one line of the cache. Prints how many signals came.
// lackey: no
// build: -pthread -fno-inline
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

enum { THREADS = 4, ROUNDS = 2000 };
volatile int counts[THREADS];
volatile int handled, unwatched;

static void on_signal(int signal)
{
    (void)signal;
    __atomic_fetch_add(&handled, 1, __ATOMIC_SEQ_CST);
}

static void *work(void *own)
{
    volatile int *count = own;
    for (int i = 0; i < ROUNDS; i++) {
        asm volatile("incl %0" : "+m"(*count)::"cc");
        unwatched = i;
    }
    return own;
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct itimerval every = {{0, 200}, {0, 200}}, never = {0};
    pthread_t threads[THREADS];
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &every, 0);
    for (int n = 0; n < THREADS; n++)
        pthread_create(&threads[n], 0, work, (void *)&counts[n]);
    for (int n = 0; n < THREADS; n++)
        pthread_join(threads[n], 0);
    setitimer(ITIMER_REAL, &never, 0);
    int sum = 0;
    for (int n = 0; n < THREADS; n++)
        sum += counts[n];
    printf("%d %d\n", sum, handled);
    return 0;
}
