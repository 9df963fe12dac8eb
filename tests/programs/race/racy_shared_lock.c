// Writing under a lock that is held for reading.
// build: -pthread
// race: hits
#include <pthread.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
int hits;

static void *look(void *unused)
{
    pthread_rwlock_rdlock(&lock);
    hits++; // RACE
    pthread_rwlock_unlock(&lock);
    return unused;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, 0, look, 0);
    pthread_create(&b, 0, look, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
