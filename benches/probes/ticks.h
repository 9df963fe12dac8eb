/* What the comparison programs share: the time stamp counter, medians, and the line that `cargo xtask bench probes`
 * reads: name, activation, deactivation, activation with another thread in the function, invocation; in ticks, `-` where
 * there is no figure. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static inline uint64_t ticks(void) {
    uint32_t low, high;
    __asm__ volatile("rdtscp" : "=a"(low), "=d"(high) : : "ecx", "memory");
    return (uint64_t)high << 32 | low;
}
static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
static inline double median(double *values, int count) {
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}
static inline void report(const char *name, double on, double off, double contended, double hit) {
    printf("%s\t%.1f\t%.1f\t%.1f\t%.1f\n", name, on, off, contended, hit);
}

/* The function that is probed, and a thread that does nothing but call it. */
extern
#ifdef __cplusplus
    "C"
#endif
    void probed(void);
static volatile int stop_caller;
static void *caller(void *unused) {
    while (!stop_caller) probed();
    return unused;
}
static double calls(int count) {
    uint64_t start = ticks();
    for (int i = 0; i < count; i++) probed();
    return (double)(ticks() - start) / count;
}
/* Activation, deactivation, contended activation and invocation, given how it is switched. */
static void measure(const char *name, int rounds, int (*on)(void), int (*off)(void)) {
    static double up[1000], down[1000], hit[301], base[301];
    for (int i = 0; i < 301; i++) base[i] = calls(1000);
    if (on()) exit(2);
    for (int i = 0; i < 301; i++) hit[i] = calls(1000);
    if (off()) exit(2);
    double invocation = median(hit, 301) - median(base, 301), contended = 0, alone_on = 0, alone_off = 0;
    for (int busy = 0; busy < 2; busy++) {
        pthread_t thread;
        stop_caller = 0;
        if (busy) pthread_create(&thread, NULL, caller, NULL);
        for (int i = 0; i < rounds; i++) {
            uint64_t a = ticks();
            if (on()) exit(2);
            uint64_t b = ticks();
            if (off()) exit(2);
            up[i] = (double)(b - a), down[i] = (double)(ticks() - b);
        }
        if (busy) {
            contended = median(up, rounds);
            stop_caller = 1;
            pthread_join(thread, NULL);
        } else {
            alone_on = median(up, rounds), alone_off = median(down, rounds);
        }
    }
    report(name, alone_on, alone_off, contended, invocation);
}
