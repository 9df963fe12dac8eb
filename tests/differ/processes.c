// Threads, forks, programs that are executed, stopped and waited for.
#define _GNU_SOURCE
#include "differ.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static atomic_int sum;
static _Thread_local int own;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long guarded;

static void *adds(void *argument)
{
    long turns = (long)argument;
    for (long i = 0; i < turns; i++) {
        own++;
        sum++;
        pthread_mutex_lock(&lock);
        guarded += i;
        pthread_mutex_unlock(&lock);
    }
    if (turns % 2 == 0)
        pthread_exit((void *)(long)own);
    return (void *)(long)own;
}

static void threads(struct random *random)
{
    pthread_t each[6];
    long turns[6];
    int count = 1 + (int)below(random, 6);
    sum = 0;
    guarded = 0;
    for (int i = 0; i < count; i++) {
        turns[i] = 1 + (long)below(random, 200);
        pthread_create(&each[i], NULL, adds, (void *)turns[i]);
    }
    for (int i = 0; i < count; i++) {
        void *result;
        pthread_join(each[i], &result);
        say(" %ld/%ld", (long)result, turns[i]);
    }
    say(" sum %d %ld", sum, guarded);
}

static _Thread_local volatile int seen;

static void sees(int signal)
{
    seen = signal;
}

static void *waits(void *argument)
{
    while (seen == 0)
        sched_yield();
    atomic_store((atomic_int *)argument, seen);
    return NULL;
}

// A signal that is one thread's.
static void directed(struct random *random)
{
    static const int ALL[] = {SIGUSR1, SIGSEGV, SIGTRAP, SIGSYS, 44};
    int number = ALL[below(random, 5)];
    atomic_int got = 0;
    struct sigaction action = {.sa_handler = sees};
    sigaction(number, &action, NULL);
    seen = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, waits, &got);
    pthread_kill(thread, number);
    // One that is sent just when a trap of the tracer's is taken is lost (docs/limitations.md): then another is sent.
    for (int turn = 0; number == SIGTRAP && turn < 1000 && atomic_load(&got) == 0; turn++)
        usleep(1000);
    if (number == SIGTRAP && atomic_load(&got) == 0)
        pthread_kill(thread, number);
    pthread_join(thread, NULL);
    say(" %d got %d mine %d", number, atomic_load(&got), seen);
    signal(number, SIG_DFL);
}

static void status(const char *name, pid_t child)
{
    int value = -1;
    pid_t got = waitpid(child, &value, 0);
    say(" %s %s %x", name, got == child ? "ended" : "lost", value & ~0x80);
}

// A child has memory of its own.
static void forked(struct random *random)
{
    int code = (int)below(random, 256);
    int value = 1;
    flush_line();
    pid_t child = fork();
    if (child == 0) {
        value = 2;
        fill_open(random);
        _exit(one_in(random, 3) ? (int)(hash_open() & 127) : code);
    }
    status("fork", child);
    say(" value %d %016llx", value, (unsigned long long)hash_open());
}

static void vforked(struct random *random)
{
    static volatile int shared;
    static char *const WORDS[] = {"true", NULL};
    static const char *const PATHS[] = {"/bin/true", "/bin/false", "/no/such", "/"};
    const char *path = PATHS[below(random, 4)];
    bool executes = one_in(random, 2);
    shared = 0;
    pid_t child = vfork();
    if (child == 0) {
        shared = 1;
        if (executes)
            execve(path, WORDS, environ);
        shared = errno + 2;
        _exit(9);
    }
    say(" %s shared %d", executes ? path : "", executes ? shared : 1);
    status("vfork", child);
}

static void spawned(struct random *random)
{
    static char *const WORDS[] = {"sh", "-c", "kill -STOP $$; exit 3", NULL}, *const PLAIN[] = {"sh", "-c", "exit 4", NULL};
    bool stops = one_in(random, 2);
    pid_t child;
    int failed = posix_spawn(&child, one_in(random, 4) ? "/no/such" : "/bin/sh", NULL, NULL, stops ? WORDS : PLAIN, environ);
    say(" spawn %d", failed);
    if (failed != 0)
        return;
    if (stops) {
        siginfo_t info = {0};
        waitid(P_PID, (id_t)child, &info, WSTOPPED);
        say(" stopped %d/%d", info.si_code, info.si_status);
        kill(child, SIGCONT);
    }
    status("spawn", child);
}

void show_state(void)
{
    say("blocked");
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    for (int i = 1; i < 65; i++)
        if (sigismember(&blocked, i) == 1)
            say(" %d", i);
    say(", ignored");
    for (int i = 1; i < 65; i++) {
        struct sigaction action;
        if (sigaction(i, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            say(" %d", i);
    }
    say(", environment");
    for (char **each = environ; *each != NULL; each++)
        say(" %s", *each);
    say(", files");
    for (int i = 0; i < 300; i++)
        if (fcntl(i, F_GETFD) >= 0)
            say(" %d", i);
    say("\n");
    flush_line();
}

// A program sees the mask, the ignored signals, the environment and the files that it was given.
static void executed(struct random *random)
{
    static char *const WORDS[] = {"differ", "state", "", NULL};
    static char *const OWN[] = {"differ=1", "PATH=/usr/bin:/bin", NULL};
    sigset_t set, nothing;
    sigemptyset(&set);
    sigemptyset(&nothing);
    static const int ALL[] = {SIGUSR1, SIGSEGV, SIGTRAP, SIGSYS, SIGINT};
    for (int i = 0; i < 5; i++) {
        if (one_in(random, 3))
            sigaddset(&set, ALL[i]);
        if (one_in(random, 4))
            signal(ALL[i], SIG_IGN);
    }
    flush_line();
    sigprocmask(SIG_SETMASK, &set, NULL);
    pid_t child = fork();
    if (child == 0) {
        execve("/proc/self/exe", WORDS, OWN);
        _exit(8);
    }
    sigprocmask(SIG_SETMASK, &nothing, NULL);
    status("exec", child);
    for (int i = 0; i < 5; i++)
        signal(ALL[i], SIG_DFL);
}

static int in_clone(void *argument)
{
    *(volatile int *)argument = 5;
    return 6;
}

// What clone can share between a process and its child.
static void cloned(struct random *random)
{
    static uint8_t stack[65536] __attribute__((aligned(16)));
    static volatile int shared;
    static const int FLAGS[] = {0, CLONE_VM | CLONE_VFORK, CLONE_VM | CLONE_VFORK | CLONE_FILES, CLONE_FS, CLONE_VM, CLONE_VM | CLONE_SIGHAND};
    int flags = FLAGS[below(random, 6)];
    shared = 0;
    flush_line();
    pid_t child = clone(in_clone, stack + sizeof stack, flags | SIGCHLD, (void *)&shared);
    status("clone", child);
    say(" %x shared %d", flags, shared);
}

void step_processes(struct random *random)
{
    switch (below(random, 8)) {
    case 0: threads(random); break;
    case 1: directed(random); break;
    case 2: forked(random); break;
    case 3: vforked(random); break;
    case 4: spawned(random); break;
    case 5: executed(random); break;
    case 6: cloned(random); break;
    default: threads(random); break;
    }
}
