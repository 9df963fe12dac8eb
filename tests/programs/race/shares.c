// Two threads that share a cache line, and two that share a byte, of which one touches others beside it; each pair by itself.
// build: -pthread
#include <pthread.h>

struct {
    _Alignas(4096) int left;
    int right;
    _Alignas(4096) int own;
    _Alignas(2048) int other;
    _Alignas(4096) int before;
    int common;
} cells;

static void *low(void *unused)
{
    cells.left = 1;
    return unused;
}

static void *high(void *unused)
{
    cells.right = 1;
    return unused;
}

static void *first(void *unused)
{
    cells.own = 1;
    return unused;
}

static void *second(void *unused)
{
    cells.other = 1;
    return unused;
}

static void *both(void *unused)
{
    cells.common++;
    return unused;
}

static void *more(void *unused)
{
    cells.before = 1;
    cells.common++;
    return unused;
}

static void pair(void *(*a)(void *), void *(*b)(void *))
{
    pthread_t threads[2];
    pthread_create(&threads[0], 0, a, 0);
    pthread_create(&threads[1], 0, b, 0);
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
}

int main(void)
{
    pair(low, high);
    pair(first, second);
    pair(both, more);
    return 0;
}
