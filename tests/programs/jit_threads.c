// Threads that write beside code, in one page, while all of them execute it, and one whose page is no code any more meanwhile: each write is
// made, and no fault is the program's.
// translate: only
// lackey: no
// stdout: written 2000, returned 84000, changed 400, 0 faults
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define ROUNDS 500
#define THREADS 4
#define RW (PROT_READ | PROT_WRITE)

static char *memory;
static volatile int faults, sums[THREADS];
static pthread_barrier_t barrier;

static void on_segv(int signal)
{
    (void)signal;
    faults++;
    if (faults > 100)
        _exit(1);
}

static void *work(void *number)
{
    long n = (long)number;
    volatile int *word = (int *)(memory + 1024 + 256 * n);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < ROUNDS; i++) {
        (*word)++;
        sums[n] += ((int (*)(void))memory)();
    }
    return 0;
}

static int answer(volatile char *code)
{
    return ((int (*)(void))(void *)code)();
}

int main(void)
{
    // mov $42,%eax; ret
    static const char code[] = "\xb8\x2a\0\0\0\xc3";
    pthread_t threads[THREADS];
    int written = 0, returned = 0, changed = 0;
    signal(SIGSEGV, on_segv);
    memory = mmap(0, 2 * PAGE, RW | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(memory, code, sizeof code);
    memcpy(memory + PAGE, code, sizeof code);
    pthread_barrier_init(&barrier, 0, THREADS);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, work, (void *)i);
    // Another page changes its code, and its rights.
    for (int i = 0; i < 400; i++) {
        memory[PAGE + 1] = (char)(i % 100);
        changed += answer(memory + PAGE) == i % 100;
        if (i % 10 == 0) {
            mprotect(memory + PAGE, PAGE, RW);
            memory[PAGE + 1] = 0;
            mprotect(memory + PAGE, PAGE, RW | PROT_EXEC);
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], 0);
        written += *(int *)(memory + 1024 + 256 * i);
        returned += sums[i];
    }
    printf("written %d, returned %d, changed %d, %d faults\n", written, returned, changed, faults);
    return 0;
}
