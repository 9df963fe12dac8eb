// A spin lock of the C library.
// build: -pthread
#include <pthread.h>

static pthread_spinlock_t lock;
int counter;

static void *count(void *unused)
{
    for (int i = 0; i < 20; i++) {
        pthread_spin_lock(&lock);
        counter++;
        pthread_spin_unlock(&lock);
    }
    return unused;
}

int main(void)
{
    pthread_t a, b;
    pthread_spin_init(&lock, 0);
    pthread_create(&a, 0, count, 0);
    pthread_create(&b, 0, count, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return counter != 40;
}
