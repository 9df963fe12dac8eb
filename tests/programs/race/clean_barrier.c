// Two phases with a barrier between them.
// build: -pthread
#include <pthread.h>

static pthread_barrier_t barrier;
int halves[2];
int sums[2];

static void *work(void *arg)
{
    long me = (long)arg;
    for (int round = 0; round < 10; round++) {
        halves[me] = round + me;
        pthread_barrier_wait(&barrier);
        sums[me] += halves[1 - me];
        pthread_barrier_wait(&barrier);
    }
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
