// Two halves of an array that overlap in one element.
// build: -pthread
// race: cells
#include <pthread.h>

int cells[64];

static void fill(int from, int to)
{
    for (int i = from; i < to; i++)
        cells[i] = i; // RACE
}

static void *low(void *unused)
{
    fill(0, 33);
    return unused;
}

static void *high(void *unused)
{
    fill(32, 64);
    return unused;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, 0, low, 0);
    pthread_create(&b, 0, high, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
