// Data pass to threads by making them, and back by joining them; memory is used again.
// build: -pthread
#include <pthread.h>
#include <stdlib.h>

static int *cells;

static void *work(void *arg)
{
    long me = (long)arg;
    int *own = malloc(64);
    for (int i = 0; i < 16; i++)
        own[i] = cells[me * 16 + i] += i;
    free(own);
    return 0;
}

int main(void)
{
    for (int round = 0; round < 4; round++) {
        pthread_t threads[3];
        cells = malloc(3 * 16 * sizeof *cells);
        for (int i = 0; i < 48; i++)
            cells[i] = round;
        for (long i = 0; i < 3; i++)
            pthread_create(&threads[i], 0, work, (void *)i);
        for (int i = 0; i < 3; i++)
            pthread_join(threads[i], 0);
        int sum = 0;
        for (int i = 0; i < 48; i++)
            sum += cells[i];
        free(cells);
        if (sum != 360 + 48 * round)
            return 1;
    }
    return 0;
}
