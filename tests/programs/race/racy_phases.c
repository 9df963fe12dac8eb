// Two phases without a barrier between them.
// build: -pthread
// race: halves
#include <pthread.h>

static pthread_barrier_t barrier;
int halves[2];
volatile int sums[2];

static void *work(void *arg)
{
    long me = (long)arg;
    pthread_barrier_wait(&barrier);
    halves[me] = me + 1; // RACE
    sums[me] = halves[1 - me]; // RACE
    return 0;
}

int main(void)
{
    pthread_t a, b;
    pthread_barrier_init(&barrier, 0, 2);
    pthread_create(&a, 0, work, (void *)0);
    pthread_create(&b, 0, work, (void *)1);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
