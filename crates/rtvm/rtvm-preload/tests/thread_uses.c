// Threads that hand blocks to each other, end while they hold caches, free twice; what mallinfo2 and malloc_info say.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, BLOCKS = 512, ROUNDS = 200 };

static void *shelf[THREADS][BLOCKS];
static pthread_barrier_t barrier;

static size_t size_of(int thread, int block, int round) { return 1 + (thread * 37 + block * 13 + round * 7) % 1500; }

/* Fills the blocks of its own row, releases those of its neighbour's. */
static void *work(void *argument) {
    int mine = (int)(intptr_t)argument, next = (mine + 1) % THREADS;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            size_t bytes = size_of(mine, i, round);
            char *block = malloc(bytes);
            if (!block || (uintptr_t)block % 16) abort();
            memset(block, mine + 1, bytes);
            shelf[mine][i] = block;
        }
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < BLOCKS; i++) {
            char *block = shelf[next][i];
            size_t bytes = size_of(next, i, round);
            if (malloc_usable_size(block) < bytes) abort();
            for (size_t at = 0; at < bytes; at++)
                if (block[at] != next + 1) abort();
            free(block);
        }
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static void *release(void *block) {
    free(block);
    return NULL;
}

int main(int count, char **arguments) {
    pthread_t threads[THREADS];
    if (count > 1 && !strcmp(arguments[1], "twice")) {
        /* By another thread, whose cache has it or has given it to the heap. */
        void *block = malloc(100);
        pthread_create(&threads[0], NULL, release, block);
        pthread_join(threads[0], NULL);
        free(block);
        return 0;
    }
    if (count > 1 && !strcmp(arguments[1], "cached")) {
        void *block = malloc(100);
        free(block);
        free(block);
        return 0;
    }
    struct mallinfo2 before = mallinfo2();
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (intptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    struct mallinfo2 after = mallinfo2();
    /* Caches of threads that ended went back; what the C library keeps of a thread stays. */
    if (after.uordblks > before.uordblks + 65536) printf("%zu in use, then %zu\n", before.uordblks, after.uordblks);
    /* Shelves: at most 8 magazines of 16 blocks a class. */
    if (after.fsmblks > 8 * 16 * 16 * 65 * 64 / 2) printf("%zu cached\n", after.fsmblks);
    if (after.uordblks + after.fsmblks + after.fordblks != after.arena) printf("sums differ\n");
    char *large = malloc(1 << 20);
    struct mallinfo2 with = mallinfo2();
    if (with.uordblks < after.uordblks + (1 << 20) || with.uordblks > after.uordblks + (1 << 20) + 4096) printf("a MiB is %zu\n", with.uordblks - after.uordblks);
    free(large);
    if (mallinfo2().uordblks != after.uordblks) printf("a MiB stayed\n");
    char text[1024] = {0};
    FILE *file = fmemopen(text, sizeof text, "w");
    if (malloc_info(0, file) != 0) printf("no malloc_info\n");
    fclose(file);
    if (!strstr(text, "<malloc version=\"1\">") || !strstr(text, "</malloc>")) printf("%s\n", text);
    puts("ok");
    return 0;
}
