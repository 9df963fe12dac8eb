// Counters by processor, each added to in a restartable sequence where the kernel has them, and atomically where not.
// lackey: no
// stdout: 40000
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/rseq.h>

#define ADDS 10000
#define THREADS 4

static struct { long count; char pad[56]; } by_processor[1024];
static long atomic_count;

static volatile struct rseq *area(void)
{
    return (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

// 1: added; 0: interrupted, or on another processor by now.
static int add(long *place, uint32_t cpu)
{
    __asm__ goto volatile(
        ".pushsection __rseq_cs, \"aw\"\n\t.balign 32\n"
        "3:\t.long 0, 0\n\t.quad 1f, 2f - 1f, 4f\n\t.popsection\n\t"
        "leaq 3b(%%rip), %%rax\n\tmovq %%rax, %c[cs](%[area])\n"
        "1:\tcmpl %[cpu], %c[id](%[area])\n\tjne 4f\n\t"
        "movq %[place], %%rax\n\t"
        // A long way from the load to the store.
        "movl $20, %%ecx\n"
        "5:\tdecl %%ecx\n\tjnz 5b\n\t"
        "incq %%rax\n\tmovq %%rax, %[place]\n"
        "2:\tjmp 6f\n\t"
        ".long 0x53053053\n"
        "4:\tjmp %l[again]\n"
        "6:"
        :
        : [area] "r"(area()), [cpu] "r"(cpu), [place] "m"(*place), [cs] "i"(offsetof(struct rseq, rseq_cs)),
          [id] "i"(offsetof(struct rseq, cpu_id))
        : "rax", "rcx", "memory", "cc"
        : again);
    return 1;
again:
    return 0;
}

static void *work(void *unused)
{
    (void)unused;
    for (int i = 0; i < ADDS; i++) {
        for (;;) {
            int cpu = (int)area()->cpu_id;
            if (cpu < 0) {
                __atomic_fetch_add(&atomic_count, 1, __ATOMIC_RELAXED);
                break;
            }
            if (add(&by_processor[cpu % 1024].count, (uint32_t)cpu))
                break;
        }
    }
    return 0;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, work, 0);
    long sum = 0;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    for (int i = 0; i < 1024; i++)
        sum += by_processor[i].count;
    printf("%ld\n", sum + atomic_count);
    return 0;
}
