// The result is read before the thread is joined.
// build: -pthread
// race: result
#include <pthread.h>

int result;
volatile int seen;

static void *work(void *unused)
{
    result = 7; // RACE
    return unused;
}

int main(void)
{
    pthread_t a;
    pthread_create(&a, 0, work, 0);
    seen = result; // RACE
    pthread_join(a, 0);
    seen = result;
    return 0;
}
