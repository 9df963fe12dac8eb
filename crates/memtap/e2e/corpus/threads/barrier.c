// Threads work on parts of an array, and after a barrier on the parts of others.
// command: race
// expect: nothing
#include <pthread.h>
#include <stdint.h>
#include "../hide.h"

static long parts[4][16];
static pthread_barrier_t barrier;

static void *work(void *argument)
{
    intptr_t own = (intptr_t)argument;
    for (int i = 0; i < 16; i++)
        *HIDE(&parts[own][i]) = i;
    pthread_barrier_wait(&barrier);
    long sum = 0;
    for (int i = 0; i < 16; i++)
        sum += *HIDE(&parts[(own + 1) % 4][i]);
    return sum == 77 ? argument : NULL;
}

int main(void)
{
    pthread_t threads[4];
    pthread_barrier_init(&barrier, NULL, 4);
    for (intptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
