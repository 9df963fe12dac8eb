// Readers share, writers do not.
// build: -pthread
#include <pthread.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
int table[16];
volatile int seen;

static void *write_all(void *unused)
{
    for (int round = 0; round < 5; round++) {
        pthread_rwlock_wrlock(&lock);
        for (int i = 0; i < 16; i++)
            table[i] = round;
        pthread_rwlock_unlock(&lock);
    }
    return unused;
}

static void *read_all(void *unused)
{
    int sum = 0;
    for (int round = 0; round < 5; round++) {
        pthread_rwlock_rdlock(&lock);
        for (int i = 0; i < 16; i++)
            sum += table[i];
        pthread_rwlock_unlock(&lock);
    }
    pthread_rwlock_wrlock(&lock);
    seen = sum;
    pthread_rwlock_unlock(&lock);
    return unused;
}

int main(void)
{
    pthread_t threads[3];
    pthread_create(&threads[0], 0, write_all, 0);
    pthread_create(&threads[1], 0, read_all, 0);
    pthread_create(&threads[2], 0, read_all, 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    return 0;
}
