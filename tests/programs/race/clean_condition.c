// Items are handed over one at a time.
// build: -pthread
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int full;
int item;
int sum;

static void *producer(void *unused)
{
    for (int i = 1; i <= 10; i++) {
        pthread_mutex_lock(&lock);
        while (full)
            pthread_cond_wait(&changed, &lock);
        full = 1;
        pthread_mutex_unlock(&lock);
        item = i;
        pthread_mutex_lock(&lock);
        full = 2;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

static void *consumer(void *unused)
{
    for (int i = 1; i <= 10; i++) {
        pthread_mutex_lock(&lock);
        while (full != 2)
            pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        sum += item;
        pthread_mutex_lock(&lock);
        full = 0;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, 0, producer, 0);
    pthread_create(&b, 0, consumer, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
