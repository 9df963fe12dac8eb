// Double-checked locking with a plain pointer.
// build: -pthread
// race: instance
// race: ?value
// race: ?seen
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int value;
int *instance;
volatile int seen;

static void *get(void *unused)
{
    if (!*(int *volatile *)&instance) { // RACE
        pthread_mutex_lock(&lock);
        if (!instance) {
            value = 5; // RACE
            instance = &value; // RACE
        }
        pthread_mutex_unlock(&lock);
    }
    seen = *instance; // RACE
    return unused;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, 0, get, 0);
    pthread_create(&b, 0, get, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
