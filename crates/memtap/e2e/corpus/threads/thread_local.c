// Every thread counts in a variable of its own, and the sums are added after they have ended.
// command: race
// expect: nothing
#include <pthread.h>
#include <stdint.h>
#include "../hide.h"

static __thread long hits;

static void *work(void *argument)
{
    for (int i = 0; i < 50; i++)
        *HIDE(&hits) += 1;
    return (void *)(intptr_t)hits;
}

int main(void)
{
    pthread_t threads[3];
    long all = 0;
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 3; i++) {
        void *result;
        pthread_join(threads[i], &result);
        all += (intptr_t)result;
    }
    return all == 77;
}
