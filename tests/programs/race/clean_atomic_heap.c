// A ring with atomic indices on the heap, each thread owning one of them.
// build: -pthread
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct ring {
    _Atomic unsigned head, tail;
    int slots[8];
};
static struct ring *ring;
int sum;

static void *producer(void *unused)
{
    for (int i = 0; i < 30; i++) {
        unsigned head = atomic_load_explicit(&ring->head, memory_order_relaxed);
        while (head - atomic_load_explicit(&ring->tail, memory_order_acquire) == 8)
            ;
        ring->slots[head % 8] = i;
        atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    }
    return unused;
}

static void *consumer(void *unused)
{
    for (int i = 0; i < 30; i++) {
        unsigned tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
        while (atomic_load_explicit(&ring->head, memory_order_acquire) == tail)
            ;
        sum += ring->slots[tail % 8];
        atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
    }
    return unused;
}

int main(void)
{
    pthread_t a, b;
    ring = calloc(1, sizeof *ring);
    pthread_create(&a, 0, producer, 0);
    pthread_create(&b, 0, consumer, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    free(ring);
    return sum != 435;
}
