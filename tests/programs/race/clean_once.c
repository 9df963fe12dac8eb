// Initialised once.
// build: -pthread
#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
int table[8];
int sums[2];

static void fill(void)
{
    for (int i = 0; i < 8; i++)
        table[i] = i;
}

static void *work(void *arg)
{
    long me = (long)arg;
    pthread_once(&once, fill);
    for (int i = 0; i < 8; i++)
        sums[me] += table[i];
    return 0;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, 0, work, (void *)0);
    pthread_create(&b, 0, work, (void *)1);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return sums[0] != 28;
}
