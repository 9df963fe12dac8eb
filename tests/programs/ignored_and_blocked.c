// Faults that a program ignores, blocks and is sent wait until it takes or unblocks them, wherever it looks meanwhile; ignoring them once more
// forgets them. A program that ignores them makes one that does, also by vfork and beside a thread, but not where it asks for the default.
// lackey: no
// stdout: pending: 6 6 6, taken: 6, unblocked: 0, kept: 6, forgotten: 0, slept: 1, children: 1 1 0
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const int FAULTS[] = {SIGFPE, SIGILL, SIGBUS, SIGSEGV, SIGTRAP, SIGSYS};
enum { FAULT_COUNT = sizeof FAULTS / sizeof *FAULTS };

static sigset_t all;

static int pending(void)
{
    int count = 0;
    sigset_t set;
    sigpending(&set);
    for (int i = 0; i < FAULT_COUNT; i++)
        count += sigismember(&set, FAULTS[i]);
    return count;
}

static void send_all(void)
{
    for (int i = 0; i < FAULT_COUNT; i++)
        kill(getpid(), FAULTS[i]);
}

static void ignore_all(void)
{
    for (int i = 0; i < FAULT_COUNT; i++)
        signal(FAULTS[i], SIG_IGN);
}

static void *sleeps(void *nothing)
{
    pause();
    return nothing;
}

// Whether the next program ignores SIGFPE.
static int child(char *name, posix_spawnattr_t *attributes)
{
    pid_t pid;
    int status;
    char *arguments[] = {name, "child", NULL};
    if (posix_spawn(&pid, "/proc/self/exe", NULL, attributes, arguments, NULL) != 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return WEXITSTATUS(status);
}

int main(int count, char **words)
{
    if (count > 1) {
        struct sigaction action;
        sigaction(SIGFPE, NULL, &action);
        return action.sa_handler == SIG_IGN;
    }
    sigemptyset(&all);
    for (int i = 0; i < FAULT_COUNT; i++)
        sigaddset(&all, FAULTS[i]);
    ignore_all();
    sigprocmask(SIG_BLOCK, &all, NULL);
    send_all();
    printf("pending: %d", pending());
    usleep(1000);
    printf(" %d", pending());
    getppid();
    printf(" %d", pending());
    int taken = 0;
    while (sigtimedwait(&all, NULL, &(struct timespec){0, 0}) > 0)
        taken++;
    printf(", taken: %d", taken);
    send_all();
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    printf(", unblocked: %d", pending());
    sigprocmask(SIG_BLOCK, &all, NULL);
    send_all();
    // An action that can't be read changes nothing.
    for (int i = 0; i < FAULT_COUNT; i++)
        syscall(SYS_rt_sigaction, FAULTS[i], (void *)1, NULL, sizeof(long));
    printf(", kept: %d", pending());
    ignore_all();
    printf(", forgotten: %d", pending());
    sigprocmask(SIG_UNBLOCK, &all, NULL);

    // One that is ignored ends no sleep.
    pid_t parent = getpid(), sender = fork();
    if (sender == 0) {
        usleep(100000);
        _exit(kill(parent, SIGFPE) != 0);
    }
    int slept = nanosleep(&(struct timespec){0, 300000000}, NULL) == 0;
    waitpid(sender, NULL, 0);
    printf(", slept: %d", slept);

    int alone = child(words[0], NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, sleeps, NULL);
    int beside = child(words[0], NULL);
    posix_spawnattr_t defaults;
    posix_spawnattr_init(&defaults);
    posix_spawnattr_setsigdefault(&defaults, &all);
    posix_spawnattr_setflags(&defaults, POSIX_SPAWN_SETSIGDEF);
    printf(", children: %d %d %d\n", alone, beside, child(words[0], &defaults));
    return 0;
}
