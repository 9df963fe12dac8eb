// A program looks in /proc what it does with its signals: the same as it has set, also in a second thread, read at once or by lines.
// lackey: no
// stdout: ignored: FPE SYS, handled: SEGV USR1 ALRM, blocked: TRAP FPE USR2 TERM; thread: blocked: SEGV ALRM; lines: ignored: FPE SYS
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    int number;
    const char *name;
} SIGNALS[] = {{SIGTRAP, "TRAP"}, {SIGFPE, "FPE"},   {SIGSEGV, "SEGV"}, {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"},
               {SIGALRM, "ALRM"}, {SIGTERM, "TERM"}, {SIGSYS, "SYS"}};
enum { SIGNAL_COUNT = sizeof SIGNALS / sizeof *SIGNALS };

static void handle(int signal)
{
    (void)signal;
}

static void show(const char *what, unsigned long long set)
{
    printf("%s:", what);
    for (int i = 0; i < SIGNAL_COUNT; i++)
        if (set >> (SIGNALS[i].number - 1) & 1)
            printf(" %s", SIGNALS[i].name);
}

static unsigned long long set_of(const char *text, const char *name)
{
    const char *line = strstr(text, name);
    return line == NULL ? 0 : strtoull(line + strlen(name), NULL, 16);
}

static const char *status_of(const char *path)
{
    static char text[8192];
    int fd = open(path, O_RDONLY);
    ssize_t count = read(fd, text, sizeof text - 1);
    close(fd);
    text[count < 0 ? 0 : count] = 0;
    return text;
}

static void block(int how, int first, int second)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, first);
    sigaddset(&set, second);
    pthread_sigmask(how, &set, NULL);
}

static void *looks(void *nothing)
{
    block(SIG_SETMASK, SIGSEGV, SIGALRM);
    show("; thread: blocked", set_of(status_of("/proc/thread-self/status"), "\nSigBlk:\t"));
    return nothing;
}

int main(void)
{
    for (int i = 0; i < SIGNAL_COUNT; i++)
        signal(SIGNALS[i].number, SIG_DFL);
    signal(SIGFPE, SIG_IGN);
    signal(SIGSYS, SIG_IGN);
    signal(SIGSEGV, handle);
    signal(SIGUSR1, handle);
    signal(SIGALRM, handle);
    block(SIG_SETMASK, SIGFPE, SIGTRAP);
    block(SIG_BLOCK, SIGUSR2, SIGTERM);
    const char *text = status_of("/proc/self/status");
    show("ignored", set_of(text, "\nSigIgn:\t"));
    show(", handled", set_of(text, "\nSigCgt:\t"));
    show(", blocked", set_of(text, "\nSigBlk:\t"));
    pthread_t thread;
    pthread_create(&thread, NULL, looks, NULL);
    pthread_join(thread, NULL);
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/status", getpid());
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "SigIgn:\t", 8) == 0)
            show("; lines: ignored", strtoull(line + 8, NULL, 16));
    puts("");
    return 0;
}
