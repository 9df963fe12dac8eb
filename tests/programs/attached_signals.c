// Handlers of all kinds at work, until standard input ends: timers, faults, signal stacks, masks, calls that a signal ends.
// lackey: no
// stdout: ready
// stdout: right
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static char stack[64 << 10];
static volatile sig_atomic_t alarms, users, wrong;
static sigjmp_buf back;
static volatile int *volatile nowhere = (volatile int *)16;

static void check(int right, const char *what) {
    if (!right) {
        wrong++;
        printf("%s: %s\n", what, strerror(errno));
    }
}

static int is_on_stack(void *here) { return (char *)here >= stack && (char *)here < stack + sizeof stack; }

static void on_alarm(int signal, siginfo_t *info, void *context) {
    char here;
    (void)context;
    if (signal != SIGALRM || info->si_signo != SIGALRM || !is_on_stack(&here)) {
        wrong++;
    }
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    if (!sigismember(&mask, SIGALRM) || !sigismember(&mask, SIGUSR2)) {
        wrong++;
    }
    alarms++;
    for (volatile int i = 0; i < 200; i++) {
    }
}

static void on_user(int signal) {
    (void)signal;
    users++;
}

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)context;
    if (signal != SIGSEGV || info->si_addr != (void *)nowhere) {
        wrong++;
    }
    siglongjmp(back, 1);
}

int main(void) {
    stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&own, NULL);
    struct sigaction action = {.sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    sigaddset(&action.sa_mask, SIGUSR2);
    sigaction(SIGALRM, &action, NULL);
    struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &fault, NULL);
    struct sigaction user = {.sa_handler = on_user};
    sigaction(SIGUSR1, &user, NULL);
    signal(SIGPIPE, SIG_IGN);
    struct itimerval often = {{0, 700}, {0, 700}};
    setitimer(ITIMER_REAL, &often, NULL);
    puts("ready");
    fflush(stdout);
    for (long turn = 0;; turn++) {
        struct pollfd input = {0, POLLIN, 0};
        int ready = poll(&input, 1, 0);
        if (ready > 0) {
            break;
        }
        check(ready == 0 || errno == EINTR, "poll");
        // A fault, and out of its handler.
        if (sigsetjmp(back, 1) == 0) {
            *nowhere = 1;
            check(0, "nothing faulted");
        }
        // A signal of its own, at once.
        sig_atomic_t before = users;
        raise(SIGUSR1);
        check(users == before + 1, "raise");
        // One that waits for its mask.
        sigset_t held, former, open;
        sigemptyset(&held);
        sigaddset(&held, SIGUSR1);
        sigprocmask(SIG_BLOCK, &held, &former);
        check(!sigismember(&former, SIGUSR1) && !sigismember(&former, SIGSEGV), "the mask");
        raise(SIGUSR1);
        check(users == before + 1, "a blocked signal");
        open = former;
        check(sigsuspend(&open) == -1 && errno == EINTR, "sigsuspend");
        sigprocmask(SIG_SETMASK, &former, NULL);
        check(users == before + 2, "a signal that waited");
        // An alarm ends a pause.
        sig_atomic_t alarms_before = alarms;
        check(pause() == -1 && errno == EINTR && alarms > alarms_before, "pause");
        struct sigaction now;
        stack_t stack_now;
        sigaction(SIGSEGV, NULL, &now);
        check(now.sa_sigaction == on_fault && (now.sa_flags & SA_SIGINFO), "sigaction");
        sigaction(SIGALRM, NULL, &now);
        check(now.sa_sigaction == on_alarm && sigismember(&now.sa_mask, SIGUSR2), "sigaction");
        sigaltstack(NULL, &stack_now);
        check(stack_now.ss_sp == stack && stack_now.ss_size == sizeof stack && !stack_now.ss_flags, "sigaltstack");
    }
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    puts(wrong == 0 ? "right" : "wrong");
    return wrong != 0;
}
