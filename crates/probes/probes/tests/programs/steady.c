// steady: as often as half a second allows, and 30,000 times at least, nine calls in ten short and one long. seldom: 3 times.
// Prints how often it called steady.
#include <stdio.h>
#include <time.h>

volatile long sink;

__attribute__((noipa)) void steady(int n) {
    for (int i = 0; i < n; i++) sink = sink + i;
}

__attribute__((noipa)) void seldom(void) { sink = sink + 1; }

static long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int main(void) {
    long start = now_ms();
    long i = 0;
    for (; now_ms() - start < 500 || i < 300; i++)
        for (int j = 0; j < 100; j++) steady(j % 10 == 3 ? 20000 : 200);
    for (int i = 0; i < 3; i++) seldom();
    printf("%ld\n", i * 100);
    return 0;
}
