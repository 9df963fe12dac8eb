// A field of a block on the heap.
// build: -pthread
// race: <calloc
#include <pthread.h>
#include <stdlib.h>

struct account {
    long number;
    long balance;
};
static struct account *account;

static void *pay(void *unused)
{
    account->balance = account->number; // RACE
    return unused;
}

int main(void)
{
    pthread_t a, b;
    account = calloc(1, sizeof *account);
    pthread_create(&a, 0, pay, 0);
    pthread_create(&b, 0, pay, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    free(account);
    return 0;
}
