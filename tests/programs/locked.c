// Locked instructions of two threads: counted exactly, and the flags that they leave alone are whole after them.
// build: -pthread -mno-red-zone
// lackey: no
// expect: own size=8 modifies=512
// expect: pairs size=8 modifies=128
// expect: shared size=8 loads=1 modifies=128
// stdout: 128 0 wrong
#include <pthread.h>
#include <stdio.h>
#include "access.h"

#define CARRY 0x001
#define ZERO 0x040
#define ALL 0x8d5
#define FLAGS_AROUND(instruction, keeps, operand, ...)                                                             \
    do {                                                                                                           \
        unsigned long after;                                                                                       \
        asm volatile("pushq %2\n\tpopfq\n\t" instruction " %1\n\tpushfq\n\tpopq %0"                               \
                     : "=&r"(after), "+m"(operand) : "r"(flags), ##__VA_ARGS__ : "cc", "rax", "rdx");             \
        wrong[n] += ((after ^ flags) & (keeps)) != 0;                                                             \
    } while (0)

unsigned long own[2], pairs[2], shared;
static int wrong[2];
static pthread_barrier_t both;

static void *work(void *argument)
{
    long n = (long)argument;
    unsigned long value = 7;
    pthread_barrier_wait(&both);
    for (unsigned long bits = 0; bits < 64; bits++) {
        unsigned long flags = 0x202 | (bits & 1) | (bits & 2) << 1 | (bits & 4) << 2 | (bits & 24) << 3 | (bits & 32) << 6;
        FLAGS_AROUND("xchgq %3,", ALL, own[n], "r"(value));
        FLAGS_AROUND("lock notq", ALL, own[n]);
        FLAGS_AROUND("lock incq", CARRY, own[n]);
        FLAGS_AROUND("lock decq", CARRY, own[n]);
        FLAGS_AROUND("lock cmpxchg8b", ALL & ~ZERO, pairs[n], "b"(0), "c"(0));
        MODIFY("lock incq", shared);
    }
    return 0;
}

int main(void)
{
    pthread_t threads[2];
    pthread_barrier_init(&both, 0, 2);
    for (long n = 0; n < 2; n++)
        pthread_create(&threads[n], 0, work, (void *)n);
    for (long n = 0; n < 2; n++)
        pthread_join(threads[n], 0);
    printf("%ld %d wrong\n", LOAD(shared), wrong[0] + wrong[1]);
    return 0;
}
