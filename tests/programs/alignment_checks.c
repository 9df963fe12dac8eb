// The flag for alignment checks is set over branches, a system call and a signal, as HotSpot does to find out about the processor: the
// tracer's own code runs without it, the program's with it.
// lackey: no
// stdout: set 1, after a call 1, in the handler 1, after it 1
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ALIGNMENT 0x40000ul

static volatile unsigned long handled;

static unsigned long flags(void)
{
    unsigned long value;
    __asm__ volatile("pushfq; pop %0" : "=r"(value));
    return value & ALIGNMENT;
}

static void set(unsigned long on)
{
    __asm__ volatile("pushfq; pop %%rax; and $~0x40000, %%rax; or %0, %%rax; push %%rax; popfq" : : "r"(on) : "rax", "memory", "cc");
}

static void on_signal(int signal)
{
    (void)signal;
    handled = flags();
}

__attribute__((noinline)) static long call(long number, long first, long second)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(first), "S"(second) : "rcx", "r11", "memory");
    return result;
}

int main(void)
{
    unsigned long seen[3];
    long pid = getpid();
    signal(SIGUSR1, on_signal);
    set(ALIGNMENT);
    seen[0] = flags();
    call(SYS_getppid, 0, 0);
    seen[1] = flags();
    call(SYS_kill, pid, SIGUSR1);
    seen[2] = flags();
    set(0);
    printf("set %d, after a call %d, in the handler %d, after it %d\n", seen[0] != 0, seen[1] != 0, handled != 0, seen[2] != 0);
    return 0;
}
