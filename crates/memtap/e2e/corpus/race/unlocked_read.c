// All writes are under a lock, one read is not.
// command: race
// expect: race total
#include <pthread.h>
#include "../hide.h"

static long total;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *add(void *argument)
{
    for (int i = 0; i < 50; i++) {
        pthread_mutex_lock(&lock);
        *HIDE(&total) += 1; // here
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void *look(void *argument)
{
    long seen = HIDE(*HIDE(&total)); // here
    return seen == 77 ? argument : NULL;
}

int main(void)
{
    pthread_t adder, looker;
    pthread_create(&adder, NULL, add, NULL);
    pthread_create(&looker, NULL, look, NULL);
    pthread_join(adder, NULL);
    pthread_join(looker, NULL);
    return 0;
}
