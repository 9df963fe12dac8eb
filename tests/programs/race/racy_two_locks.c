// Each thread takes a lock, but not the same one.
// build: -pthread
// race: balance
#include <pthread.h>

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
long balance;

static void *deposit(void *unused)
{
    pthread_mutex_lock(&first);
    balance += 10; // RACE
    pthread_mutex_unlock(&first);
    return unused;
}

static void *withdraw(void *unused)
{
    pthread_mutex_lock(&second);
    balance -= 5; // RACE
    pthread_mutex_unlock(&second);
    return unused;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, 0, deposit, 0);
    pthread_create(&b, 0, withdraw, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
