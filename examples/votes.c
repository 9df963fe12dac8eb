/* A program of two threads with something to find: one counter is counted under a lock, the other without.
 *
 * - `valid` is right at the end, `spoiled` may not be: nothing orders the threads that change it.
 * - `valid` and `spoiled` lie in one cache line, and so do each thread's own `done`: the threads take it from each other.
 */
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long valid;
static long spoiled;

struct desk {
    long done;
};
static struct desk desks[2];

static void count(struct desk *desk, int vote)
{
    if (vote % 5 == 0) {
        spoiled++; /* the lock is forgotten */
    } else {
        pthread_mutex_lock(&lock);
        valid++;
        pthread_mutex_unlock(&lock);
    }
    desk->done++;
}

static void *work(void *desk)
{
    for (int vote = 0; vote < 1000; vote++)
        count(desk, vote);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, &desks[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("valid: %ld\n", valid);
    return 0;
}
