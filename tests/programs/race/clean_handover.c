// A block made by one thread is freed by another, and its memory is used again by a third.
// build: -pthread
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int *box;
int sum;

static void *giver(void *unused)
{
    for (int i = 0; i < 20; i++) {
        int *own = malloc(32);
        own[0] = i;
        pthread_mutex_lock(&lock);
        while (box)
            pthread_cond_wait(&changed, &lock);
        box = own;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

static void *taker(void *unused)
{
    for (int i = 0; i < 20; i++) {
        pthread_mutex_lock(&lock);
        while (!box)
            pthread_cond_wait(&changed, &lock);
        int *own = box;
        box = 0;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
        sum += own[0];
        free(own);
    }
    return unused;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, 0, giver, 0);
    pthread_create(&b, 0, taker, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
