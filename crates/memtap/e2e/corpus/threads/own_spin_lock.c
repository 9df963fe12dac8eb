// A spin lock in assembly: taken by an exchange, waited for and released by plain moves.
// command: race
// expect: nothing
#include <pthread.h>
#include <sched.h>
#include "../hide.h"

static volatile int lock;
static long hits;

static void take(void)
{
    for (;;) {
        int was = 1;
        __asm__ volatile("xchgl %0, %1" : "+r"(was), "+m"(lock) : : "memory");
        if (!was)
            return;
        while (lock)
            sched_yield();
    }
}

static void release(void)
{
    __asm__ volatile("" : : : "memory");
    lock = 0;
}

static void *work(void *argument)
{
    for (int i = 0; i < 50; i++) {
        take();
        *HIDE(&hits) += 1;
        release();
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return hits == 77;
}
