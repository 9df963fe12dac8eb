// A loop runs into memory that is not there, in the first, second, third and fourth turn of what is recorded at once, and is left
// by a jump out of the handler, or goes on when the handler has put memory there.
// expect: guarded size=8 loads=1526
// status: 0
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

enum { PAGE = 4096, WORDS = PAGE / 8 };
__attribute__((aligned(PAGE))) long guarded[2 * WORDS];
static sigjmp_buf back;
static volatile int opens;
static void *faulted;

static void on_fault(int signal, siginfo_t *info, void *context) {
    faulted = info->si_addr;
    if (!opens) siglongjmp(back, signal);
    mprotect(guarded + WORDS, PAGE, PROT_READ | PROT_WRITE);
    (void)context;
}

__attribute__((noinline)) static long sum(const long *from, long count) {
    long sum = 0;
    __asm__ volatile("1: addq (%[from]), %[sum]\n\t"
                     "addq $8, %[from]\n\t"
                     "decq %[count]\n\t"
                     "jnz 1b"
                     : [from] "+r"(from), [sum] "+r"(sum), [count] "+r"(count)
                     :
                     : "memory", "cc");
    return sum;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    mprotect(guarded + WORDS, PAGE, PROT_NONE);
    // 4 + 5 + 6 + 7 words, and then the one that is not there.
    for (int before = 4; before < 8; before++)
        if (sigsetjmp(back, 1) == 0) {
            sum(guarded + WORDS - before, 100);
            return 1;
        } else if (faulted != guarded + WORDS)
            return 2;
    // 1002 words, through the fault, and 502.
    opens = 1;
    if (sum(guarded, 1002) != 0) return 3;
    if (faulted != guarded + WORDS) return 4;
    return sum(guarded, 502) != 0 ? 5 : 0;
}
