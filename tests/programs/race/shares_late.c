// Two threads that share a cache line; the one that began second has ended before the first one touches it.
// build: -pthread
#include <pthread.h>
#include <unistd.h>

struct {
    _Alignas(4096) int left;
    int right;
} cells;

static int begun[2], go[2];

static void *low(void *unused)
{
    char byte;
    if (write(begun[1], "", 1) == 1 && read(go[0], &byte, 1) == 1)
        cells.left = 1;
    return unused;
}

static void *high(void *unused)
{
    cells.right = 1;
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    char byte;
    if (pipe(begun) || pipe(go))
        return 1;
    pthread_create(&threads[0], 0, low, 0);
    if (read(begun[0], &byte, 1) != 1)
        return 1;
    pthread_create(&threads[1], 0, high, 0);
    pthread_join(threads[1], 0);
    if (write(go[1], "", 1) != 1)
        return 1;
    pthread_join(threads[0], 0);
    return 0;
}
