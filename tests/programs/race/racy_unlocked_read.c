// The writer locks, the reader does not.
// build: -pthread
// race: level
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
int level;
volatile int seen;

static void *writer(void *unused)
{
    for (int i = 0; i < 10; i++) {
        pthread_mutex_lock(&lock);
        level = i; // RACE
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

static void *reader(void *unused)
{
    seen = level; // RACE
    return unused;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, 0, writer, 0);
    pthread_create(&b, 0, reader, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
