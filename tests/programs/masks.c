// System calls that change the signal mask while they wait: sigsuspend, pselect, ppoll, epoll_pwait, sigtimedwait,
// signalfd. Masks and results lie in protected memory.
// lackey: no
// expect: handled size=4 loads=5 modifies=4
// stdout: handled 4, waited 10, read 12
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>
#include "access.h"

int handled;
static sigset_t blocked, open_mask, only;
static struct timespec soon = {5, 0};
static siginfo_t info;
static struct signalfd_siginfo record;
static struct epoll_event event;

static void count(int signal)
{
    (void)signal;
    MODIFY("incl", handled);
}

int main(void)
{
    int wrong = 0;
    struct sigaction action = {.sa_handler = count};
    sigaction(SIGUSR1, &action, 0);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, &open_mask);
    sigdelset(&open_mask, SIGUSR1);

    raise(SIGUSR1);
    wrong += LOAD(handled) != 0;
    wrong += sigsuspend(&open_mask) != -1 || errno != EINTR || LOAD(handled) != 1;
    raise(SIGUSR1);
    wrong += pselect(0, 0, 0, 0, &soon, &open_mask) != -1 || errno != EINTR || LOAD(handled) != 2;
    raise(SIGUSR1);
    wrong += ppoll(0, 0, &soon, &open_mask) != -1 || errno != EINTR || LOAD(handled) != 3;
    raise(SIGUSR1);
    int queue = epoll_create1(0);
    wrong += epoll_pwait(queue, &event, 1, 5000, &open_mask) != -1 || errno != EINTR;

    sigemptyset(&only);
    sigaddset(&only, SIGUSR2);
    sigaddset(&only, SIGTERM);
    sigprocmask(SIG_BLOCK, &only, 0);
    kill(getpid(), SIGUSR2);
    int waited = sigtimedwait(&only, &info, &soon);
    wrong += waited != SIGUSR2 || info.si_pid != getpid();
    waited -= 2; // SIGUSR2 is 12
    int fd = signalfd(-1, &only, 0);
    kill(getpid(), SIGUSR2);
    long got = read(fd, &record, sizeof record);
    wrong += got != sizeof record || record.ssi_pid != (unsigned)getpid();
    printf("handled %d, waited %d, read %u\n", LOAD(handled), waited, record.ssi_signo);
    return wrong;
}
