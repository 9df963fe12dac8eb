// Signals that the tracers live on, sent while the program blocks them: they wait, can be seen waiting, and come when they are
// let in, each at the moment at which it comes natively.
// lackey: no
// stdout: 3 wait, 0 came; taken 1, taken 5 from self; let in 11; suspended 31; after the handler 5; slept, woken by 10 alone
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t came, order[4];

static void on_signal(int signal)
{
    if (came < 4)
        order[came] = signal;
    came++;
}

static void on_user(int signal)
{
    raise(SIGTRAP);
    on_signal(signal);
}

static int is_waiting(int signal)
{
    sigset_t set;
    sigpending(&set);
    return sigismember(&set, signal);
}

int main(void)
{
    const int ours[] = {SIGTRAP, SIGSEGV, SIGSYS};
    struct sigaction action;
    struct timespec now = {0, 0}, moment = {0, 200000000};
    siginfo_t info;
    sigset_t all, none, set;
    int waiting = 0, taken, slept;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigemptyset(&all);
    sigemptyset(&none);
    for (int i = 0; i < 3; i++) {
        sigaction(ours[i], &action, 0);
        sigaddset(&all, ours[i]);
    }
    sigprocmask(SIG_BLOCK, &all, 0);
    for (int i = 0; i < 3; i++) {
        kill(getpid(), ours[i]);
        kill(getpid(), ours[i]);
        waiting += is_waiting(ours[i]);
    }
    printf("%d wait, %d came; ", waiting, (int)came);

    // For the thread and for the process: two.
    raise(SIGTRAP);
    raise(SIGTRAP);
    sigemptyset(&set);
    sigaddset(&set, SIGTRAP);
    taken = sigtimedwait(&set, &info, &now) == SIGTRAP && is_waiting(SIGTRAP);
    printf("taken %d, ", taken);
    taken = sigtimedwait(&set, &info, &now);
    printf("taken %d from %s; ", taken, info.si_pid == getpid() && !is_waiting(SIGTRAP) ? "self" : "nobody");

    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    sigprocmask(SIG_UNBLOCK, &set, 0);
    printf("let in %d; ", came == 1 ? (int)order[0] : -1);

    sigsuspend(&none);
    printf("suspended %d; ", came == 2 ? (int)order[1] : -1);

    // A handler that blocks what it sends: that comes after it.
    sigprocmask(SIG_UNBLOCK, &all, 0);
    came = 0;
    action.sa_handler = on_user;
    action.sa_mask = all;
    sigaction(SIGUSR1, &action, 0);
    raise(SIGUSR1);
    printf("after the handler %d; ", came == 2 && order[0] == SIGUSR1 ? (int)order[1] : -1);

    // What is blocked does not wake anybody.
    sigprocmask(SIG_BLOCK, &all, 0);
    came = 0;
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 4; i++) {
            nanosleep(&moment, 0);
            kill(getppid(), i < 3 ? ours[i] : SIGUSR1);
        }
        _exit(0);
    }
    slept = poll(0, 0, 20000) == -1 && errno == EINTR;
    printf("slept, woken by %d alone\n", slept && came == 1 ? (int)order[0] : -1);
    while (waitpid(child, 0, 0) == -1)
        ;
    return 0;
}
