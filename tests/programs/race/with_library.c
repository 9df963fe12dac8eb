// Two threads race for a variable of the program, and for one inside of a library that they call.
// build: -pthread
// alone: no
#include <pthread.h>

void count_one(void);

static volatile long own;

static void *work(void *unused)
{
    own = 1;
    count_one();
    return unused;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, NULL, work, NULL);
    pthread_create(&b, NULL, work, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    return 0;
}
