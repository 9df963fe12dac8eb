// Two bit fields in one word.
// build: -pthread
// race: flags
#include <pthread.h>

struct {
    unsigned low : 3;
    unsigned high : 5;
} flags;

static void *set_low(void *unused)
{
    flags.low = 1; // RACE
    return unused;
}

static void *set_high(void *unused)
{
    flags.high = 1; // RACE
    return unused;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, 0, set_low, 0);
    pthread_create(&b, 0, set_high, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
