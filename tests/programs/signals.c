// Signals of all kinds: nested, blocked and pending, on another stack, restarting a system call, asynchronous, waited
// for, jumped out of.
// lackey: no
// expect: handled size=4 loads=3 modifies=8
// expect: nested size=4 loads=1 stores=1 modifies=1
// expect: steady size=8 loads=50001 stores=50000
// stdout: handled 8, on the other stack 1, nested 5, read 4, jumps 3, steady 50000
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include "access.h"

int handled, nested;
long steady;
static volatile int on_other_stack, ticks, wrong;
static char *other_stack;
static sigjmp_buf back;

static void count(int signal)
{
    (void)signal;
    MODIFY("incl", handled);
}

static int waited_for;

// A read that begins only after the signal, on a busy machine, ends with an error as well.
static void count_and_end_the_wait(int signal)
{
    count(signal);
    fcntl(waited_for, F_SETFL, O_NONBLOCK);
}

static void count_on_stack(int signal)
{
    (void)signal;
    char here;
    if (&here > other_stack && &here < other_stack + 65536)
        on_other_stack++;
    MODIFY("incl", handled);
}

static void outer(int signal)
{
    (void)signal;
    MODIFY("incl", handled);
    STORE(nested, 1);
    raise(SIGUSR2);
    if (LOAD(handled) == 3)
        MODIFY("addl $4,", nested);
}

static void jump(int signal)
{
    (void)signal;
    siglongjmp(back, 1);
}

static void tick(int signal)
{
    (void)signal;
    ticks++;
}

static void handle(int signal, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(signal, &action, 0);
}

int main(void)
{
    // Blocked, pending, delivered once.
    sigset_t set, pending;
    handle(SIGUSR1, count, 0);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, 0);
    raise(SIGUSR1);
    raise(SIGUSR1);
    sigpending(&pending);
    wrong += !sigismember(&pending, SIGUSR1) || handled != 0;
    sigprocmask(SIG_UNBLOCK, &set, 0);

    // Nested.
    handle(SIGUSR2, count, 0);
    handle(SIGUSR1, outer, 0);
    raise(SIGUSR1);
    int nesting = LOAD(nested);

    // On another stack.
    other_stack = malloc(65536);
    stack_t stack = {.ss_sp = other_stack, .ss_size = 65536};
    sigaltstack(&stack, 0);
    handle(SIGUSR1, count_on_stack, SA_ONSTACK | SA_RESETHAND);
    raise(SIGUSR1);
    struct sigaction now;
    sigaction(SIGUSR1, 0, &now);
    wrong += now.sa_handler != SIG_DFL;

    // A read that is interrupted goes on.
    int ends[2];
    char text[8] = {0};
    if (pipe(ends))
        return 1;
    handle(SIGALRM, count, SA_RESTART);
    pid_t child = fork();
    if (child == 0) {
        usleep(300000);
        _exit(write(ends[1], "done", 4) != 4);
    }
    struct itimerval timer = {.it_value = {0, 100000}};
    setitimer(ITIMER_REAL, &timer, 0);
    long got = read(ends[0], text, 4);
    wrong += strcmp(text, "done") != 0;
    waitpid(child, 0, 0);

    // One that is not restarted.
    waited_for = ends[0];
    handle(SIGALRM, count_and_end_the_wait, 0);
    timer.it_value.tv_usec = 50000;
    setitimer(ITIMER_REAL, &timer, 0);
    wrong += read(ends[0], text, 4) != -1;

    // Taken without a handler.
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, 0);
    raise(SIGUSR2);
    int taken;
    sigwait(&set, &taken);
    wrong += taken != SIGUSR2;
    sigprocmask(SIG_UNBLOCK, &set, 0);

    // Jumped out of.
    volatile int jumps = 0;
    handle(SIGUSR1, jump, 0);
    while (sigsetjmp(back, 1) < 1 || ++jumps < 3)
        raise(SIGUSR1);

    // Asynchronous ones while memory is accessed: none of the accesses is lost or made twice.
    handle(SIGALRM, tick, 0);
    struct itimerval often = {.it_interval = {0, 1000}, .it_value = {0, 1000}};
    setitimer(ITIMER_REAL, &often, 0);
    REPEAT(50000) STORE(steady, LOAD(steady) + 1);
    memset(&often, 0, sizeof often);
    setitimer(ITIMER_REAL, &often, 0);

    handle(SIGUSR1, count, SA_NODEFER);
    raise(SIGUSR1);
    raise(SIGUSR1);
    printf("handled %d, on the other stack %d, nested %d, read %ld, jumps %d, steady %ld\n", LOAD(handled), on_other_stack,
           nesting, got, jumps, LOAD(steady));
    return wrong;
}
