// Threads allocate and release blocks, so that memory goes from one to the other by the allocator.
// command: race
// expect: nothing
#include <pthread.h>
#include <stdlib.h>
#include "../hide.h"

static void *work(void *argument)
{
    for (int i = 0; i < 60; i++) {
        long *block = malloc(2000 + 100 * (i % 5));
        for (int j = 0; j < 250; j += 50)
            *HIDE(&block[j]) = j;
        free(HIDE(block));
    }
    return NULL;
}

int main(void)
{
    for (int turn = 0; turn < 3; turn++) {
        pthread_t threads[3];
        for (int i = 0; i < 3; i++)
            pthread_create(&threads[i], NULL, work, NULL);
        for (int i = 0; i < 3; i++)
            pthread_join(threads[i], NULL);
    }
    return 0;
}
