// Particles in a static array, in one on the stack, on a thread's stack and in the heap. Volatile accesses are one access each.
#include <pthread.h>
#include <stdlib.h>

struct particle {
    volatile double place;
    volatile int id, alive;
};

static struct particle all[50];

__attribute__((noinline)) static void step(struct particle *one, int count)
{
    for (int i = 0; i < count; i++) {
        one[i].place = i;
        if (one[i].alive)
            one[i].id = i;
    }
}

static void *work(void *unused)
{
    struct particle own[10];
    for (int i = 0; i < 10; i++)
        own[i].alive = 1;
    step(own, 10);
    return unused;
}

int main(void)
{
    struct particle local[20];
    struct particle *block = calloc(30, sizeof *block);
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    for (int i = 0; i < 20; i++)
        local[i].alive = 0;
    step(all, 50);
    step(local, 20);
    step(block, 30);
    free(block);
    return 0;
}
