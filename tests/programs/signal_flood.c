// A timer of fifty thousand signals a second, and calls that may wait: those that are ready are made, those that are not end or are made
// again as their signals say. Without an argument handlers restart calls.
// lackey: no
// stdout: restarted: 60 read, 60 polled, 3 by the child
// stdout: ended: 60 read, 60 polled, 3 by the child
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long ticks;

static void on_tick(int signal)
{
    (void)signal;
    ticks++;
}

static void every(long microseconds)
{
    struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &timer, 0);
}

static void flood(const char *name, int flags)
{
    struct sigaction action;
    int ends[2], read_all = 0, polled = 0, status = 0;
    char bytes[8];
    memset(&action, 0, sizeof action);
    action.sa_handler = on_tick;
    action.sa_flags = flags;
    sigaction(SIGALRM, &action, 0);
    if (pipe(ends))
        return;
    every(20);
    for (int i = 0; i < 60; i++) {
        struct pollfd ready = {ends[1], POLLOUT, 0};
        while (write(ends[1], "abcd", 4) != 4)
            ;
        while (read(ends[0], bytes, 4) != 4)
            ;
        read_all += !memcmp(bytes, "abcd", 4);
        while (poll(&ready, 1, 1000) != 1)
            ;
        polled += ready.revents == POLLOUT;
    }
    pid_t child = fork();
    if (!child)
        _exit(3);
    while (waitpid(child, &status, 0) != child)
        ;
    every(0);
    close(ends[0]), close(ends[1]);
    printf("%s: %d read, %d polled, %d by the child\n", name, read_all, polled, WEXITSTATUS(status));
}

int main(void)
{
    flood("restarted", SA_RESTART);
    flood("ended", 0);
    return ticks == 0;
}
