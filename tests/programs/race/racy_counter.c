// Two threads count without a lock.
// build: -pthread
// race: counter
#include <pthread.h>

int counter;

static void *count(void *unused)
{
    for (int i = 0; i < 20; i++)
        __asm__ volatile("incl %0" : "+m"(counter)); // RACE
    return unused;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, 0, count, 0);
    pthread_create(&b, 0, count, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
