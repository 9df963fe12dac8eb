// Two threads that share a cache line; the one that was made second has ended before the first one touches it.
// build: -pthread
#include <pthread.h>
#include <unistd.h>

struct {
    _Alignas(64) int left;
    int right;
} cells;

static int ends[2];

static void *low(void *unused)
{
    char go;
    if (read(ends[0], &go, 1) == 1)
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
    if (pipe(ends))
        return 1;
    pthread_create(&threads[0], 0, low, 0);
    pthread_create(&threads[1], 0, high, 0);
    pthread_join(threads[1], 0);
    if (write(ends[1], "", 1) != 1)
        return 1;
    pthread_join(threads[0], 0);
    return 0;
}
