// Handlers of all kinds, signals that are blocked, pending, ignored, counted, waited for, sent from handlers, and what they leave.
#define _GNU_SOURCE
#include "differ.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

// Signals that steps send; the tracers use three of them themselves.
static const int SIGNALS[] = {SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGHUP, SIGSEGV, SIGTRAP, SIGSYS, SIGFPE, SIGCHLD, SIGURG, SIGPROF, 40, 41, 64};
enum { SIGNAL_COUNT = sizeof SIGNALS / sizeof *SIGNALS };

static int any(struct random *random)
{
    return SIGNALS[below(random, SIGNAL_COUNT)];
}

static uint8_t alternative[65536];
static volatile int depth;
static volatile int inner;
static volatile int raises;
static sigjmp_buf out;
static volatile sig_atomic_t leave;

static void mask(const char *name)
{
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    uint64_t bits = 0;
    for (int i = 0; i < SIGNAL_COUNT; i++)
        bits |= (uint64_t)(sigismember(&blocked, SIGNALS[i]) == 1) << i;
    say(" %s%llx", name, (unsigned long long)bits);
}

static void pending(void)
{
    sigset_t set;
    sigpending(&set);
    uint64_t bits = 0;
    for (int i = 0; i < SIGNAL_COUNT; i++)
        bits |= (uint64_t)(sigismember(&set, SIGNALS[i]) == 1) << i;
    say(" p%llx", (unsigned long long)bits);
}

static void handler(int signal, siginfo_t *info, void *context)
{
    (void)context;
    uint8_t here;
    bool on_other = &here >= alternative && &here < alternative + sizeof alternative;
    say(" [%d c%d v%d%s", signal, info->si_code, info->si_code == SI_QUEUE ? info->si_value.sival_int : 0, on_other ? " alt" : "");
    mask("m");
    // One that is blocked comes when this handler is left, which may be for ever.
    if (depth < 2 && inner != 0 && raises < 4) {
        raises++;
        depth++;
        raise(inner);
        depth--;
    }
    say("]");
    if (leave) {
        leave = 0;
        siglongjmp(out, 1);
    }
}

static void plain(int signal)
{
    say(" (%d)", signal);
}

static void handlers_and_raises(struct random *random)
{
    static const int FLAGS[] = {0, SA_NODEFER, SA_ONSTACK, SA_ONSTACK | SA_NODEFER, SA_RESTART};
    stack_t stack = {.ss_sp = alternative, .ss_size = sizeof alternative}, off = {.ss_flags = SS_DISABLE};
    sigaltstack(&stack, NULL);
    for (int i = 0; i < SIGNAL_COUNT; i++) {
        struct sigaction action = {.sa_flags = SA_SIGINFO | FLAGS[below(random, 5)], .sa_sigaction = handler};
        if (one_in(random, 5))
            action = (struct sigaction){.sa_handler = SIG_IGN};
        else if (one_in(random, 5))
            action = (struct sigaction){.sa_handler = plain};
        for (int count = (int)below(random, 4); count > 0; count--)
            sigaddset(&action.sa_mask, any(random));
        sigaction(SIGNALS[i], &action, NULL);
    }
    inner = one_in(random, 2) ? any(random) : 0;
    raises = 0;
    sigset_t set;
    sigemptyset(&set);
    for (int count = (int)below(random, 6); count > 0; count--)
        sigaddset(&set, any(random));
    sigprocmask(SIG_SETMASK, &set, NULL);
    for (int count = 2 + (int)below(random, 5); count > 0; count--) {
        int signal = any(random);
        switch (below(random, 5)) {
        case 0: raise(signal); break;
        case 1: kill(getpid(), signal); break;
        case 2: syscall(SYS_tgkill, getpid(), gettid(), signal); break;
        case 3: sigqueue(getpid(), signal, (union sigval){.sival_int = count}); break;
        default:
            if (sigsetjmp(out, 1) == 0) {
                leave = 1;
                raise(signal);
                leave = 0;
            } else {
                depth = 0;
                say(" out");
            }
            break;
        }
        say(" %d", signal);
        mask("m");
    }
    pending();
    // One after the other: which of several comes first is not the same (docs/limitations.md).
    for (int i = 0; i < SIGNAL_COUNT; i++) {
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, SIGNALS[i]);
        if (one_in(random, 3)) {
            siginfo_t info = {0};
            struct timespec none = {0, 0};
            say(" took %d", sigtimedwait(&one, &info, &none));
        }
        sigprocmask(SIG_UNBLOCK, &one, NULL);
    }
    mask("end");
    inner = 0;
    sigaltstack(&off, NULL);
    for (int i = 0; i < SIGNAL_COUNT; i++)
        signal(SIGNALS[i], SIG_DFL);
}

static void moves_on(int signal, siginfo_t *info, void *context)
{
    (void)info;
    ucontext_t *state = context;
    say(" (%d ax %llx", signal, (unsigned long long)state->uc_mcontext.gregs[REG_RAX]);
    state->uc_mcontext.gregs[REG_RIP] += 2;
    state->uc_mcontext.gregs[REG_RBX] = 77;
    state->uc_mcontext.gregs[REG_EFL] |= 1;
    sigaddset(&state->uc_sigmask, SIGUSR2);
    say(")");
}

// A handler that changes where, with what and with which mask the program goes on.
static void changed_context(void)
{
    struct sigaction action = {.sa_sigaction = moves_on, .sa_flags = SA_SIGINFO}, before;
    sigaction(SIGILL, &action, &before);
    uint64_t b = 5, carry;
    __asm__ volatile("mov $0x1234, %%eax\n clc\n ud2\n setc %%al\n movzbl %%al, %%eax\n" : "=a"(carry), "+b"(b) : : "cc");
    say(" b %llu carry %llu", (unsigned long long)b, (unsigned long long)carry);
    mask("m");
    sigset_t nothing;
    sigemptyset(&nothing);
    sigprocmask(SIG_SETMASK, &nothing, NULL);
    sigaction(SIGILL, &before, NULL);
}

static volatile int ticks;
static int told;

static void tick(int signal)
{
    (void)signal;
    if (ticks++ == 0 && write(told, "x", 1) != 1)
        _exit(93);
}

// A timer interrupts a call that waits, or lets it go on until another process has something to say, long after the first tick.
static void interrupted(struct random *random)
{
    bool restarts = one_in(random, 2);
    struct sigaction action = {.sa_handler = tick, .sa_flags = restarts ? SA_RESTART : 0};
    int ends[2], ticked[2];
    if (pipe(ends) < 0 || pipe(ticked) < 0)
        return;
    told = ticked[1];
    ticks = 0;
    char byte;
    pid_t child = fork();
    if (child == 0) {
        ssize_t count = read(ticked[0], &byte, 1);
        usleep(400000);
        _exit(count != 1 || write(ends[1], "x", 1) != 1);
    }
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {.it_value.tv_usec = 15000, .it_interval.tv_usec = 50000}, off = {0};
    setitimer(ITIMER_REAL, &timer, NULL);
    ssize_t count = read(ends[0], &byte, 1);
    say(" read %zd errno %d", count, count < 0 ? errno : 0);
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    setitimer(ITIMER_REAL, &off, NULL);
    say(" child %x ticked %d", status, ticks > 0);
    for (int i = 0; i < 2; i++) {
        close(ends[i]);
        close(ticked[i]);
    }
    signal(SIGALRM, SIG_DFL);
}

// A child that a signal ends: by its default action, blocked where it can't be, or in its handler.
static void ends_by(struct random *random)
{
    static const int DEADLY[] = {SIGSEGV, SIGTRAP, SIGSYS, SIGILL, SIGFPE, SIGABRT, SIGUSR1, SIGKILL, SIGPIPE, SIGALRM, 50};
    int signal_number = DEADLY[below(random, sizeof DEADLY / sizeof *DEADLY)];
    unsigned way = (unsigned)below(random, 4);
    flush_line();
    pid_t child = fork();
    if (child == 0) {
        sigset_t set;
        sigfillset(&set);
        if (way == 1)
            sigprocmask(SIG_SETMASK, &set, NULL);
        if (way == 2)
            signal(SIGSEGV, SIG_IGN);
        if (way == 3) {
            raise(signal_number);
        } else if (one_in(random, 2)) {
            *(volatile int *)CLOSED = 1;
        } else {
            __asm__ volatile("int3");
            __asm__ volatile("ud2");
        }
        _exit(3);
    }
    int status = -1;
    waitpid(child, &status, 0);
    say(" signal %d way %u: %x", way == 3 ? signal_number : 0, way, status & ~0x80);
}

// A signal that waits for sigsuspend.
static void suspended(struct random *random)
{
    int signal_number = any(random);
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(signal_number, &action, NULL);
    sigset_t set, nothing;
    sigemptyset(&set);
    sigemptyset(&nothing);
    sigaddset(&set, signal_number);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(signal_number);
    pending();
    int result = sigsuspend(&nothing);
    say(" %d/%d", result, errno);
    mask("m");
    sigprocmask(SIG_SETMASK, &nothing, NULL);
    signal(signal_number, SIG_DFL);
}

void step_signals(struct random *random)
{
    switch (below(random, 12)) {
    case 0: interrupted(random); break;
    case 1: changed_context(); break;
    case 2:
    case 3: ends_by(random); break;
    case 4: suspended(random); break;
    default: handlers_and_raises(random); break;
    }
}
