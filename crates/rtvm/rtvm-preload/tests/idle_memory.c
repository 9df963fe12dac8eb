// Resident memory of a program that allocates and releases much, and of the same program when it is idle.
//
// Prints a line for each step: its name and the resident KiB.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long resident_kib(void) {
    long all, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (fscanf(file, "%ld %ld", &all, &resident) != 2) resident = 0;
    fclose(file);
    return resident * 4;
}

static void show(const char *step) { printf("%s %ld\n", step, resident_kib()); }

/* Waits until the helper has nothing more to do. */
static void idle(const char *step) {
    long before = -1, now = resident_kib();
    for (int i = 0; i < 100 && (before != now || i < 10); i++) {
        before = now;
        usleep(200000);
        now = resident_kib();
    }
    show(step);
}

int main(void) {
    static char *blocks[20000];
    char *queue[64] = {0};
    unsigned random = 1;
    for (long i = 0; i < 2000000; i++) {
        random = random * 1103515245 + 12345;
        int at = (random >> 8) % 20000;
        free(blocks[at]);
        size_t bytes = 16 + (random >> 16) % 200;
        blocks[at] = malloc(bytes);
        memset(blocks[at], 1, bytes);
    }
    show("churn");
    for (int i = 0; i < 3; i++) {
        char *small = malloc(16384 + i * 64);
        memset(small, 1, 16384);
        char *large = realloc(small, 65536);
        memset(large, 1, 65536);
        free(large);
    }
    for (int i = 0; i < 100000; i++) {
        free(queue[i % 64]);
        queue[i % 64] = malloc(16384 + (i % 7) * 512);
        memset(queue[i % 64], 1, 16384);
    }
    show("queue");
    idle("idle");
    for (int i = 0; i < 64; i++) free(queue[i]);
    for (int i = 0; i < 20000; i++) free(blocks[i]);
    idle("freed");
    /* A cache that is flushed. */
    static char *cache[4096];
    for (int i = 0; i < 4096; i++) {
        cache[i] = malloc(16000);
        memset(cache[i], 1, 16000);
    }
    show("cache");
    for (int i = 0; i < 4096; i++) free(cache[i]);
    idle("flushed");
    return 0;
}
