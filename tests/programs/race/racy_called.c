// Sums that two threads reach by different calls.
// build: -pthread
// race: total
// race: other
#include <pthread.h>
#include <stdlib.h>

long total, other;

__attribute__((noinline)) static void add(long value)
{
    total += value; // RACE
    asm volatile("");
}

__attribute__((noinline)) static void count(void)
{
    free(malloc(8));
    other++; // RACE
    asm volatile("");
}

__attribute__((noinline)) static void from_left(void)
{
    add(1);
    count();
    asm volatile("");
}

__attribute__((noinline)) static void from_right(void)
{
    long *value = malloc(sizeof *value);
    *value = 2;
    count();
    add(*value);
    free(value);
}

static void *left(void *unused)
{
    from_left();
    return unused;
}

static void *right(void *unused)
{
    from_right();
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    pthread_create(&threads[0], 0, left, 0);
    pthread_create(&threads[1], 0, right, 0);
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    return 0;
}
