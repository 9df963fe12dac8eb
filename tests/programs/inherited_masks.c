// Signals that the tracers live on are blocked over exec: the new program runs, finds them blocked, and gets one that was sent
// before as soon as it lets them in.
// lackey: no
// stdout: 3 blocked, 1 waits, 0 came; let in 1
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t came;

static void on_signal(int signal)
{
    (void)signal;
    came++;
}

int main(int count, char **arguments)
{
    sigset_t set, waits, none;
    int ours[3] = {SIGTRAP, SIGSEGV, SIGSYS}, blocked = 0;
    if (count == 1) {
        sigfillset(&set);
        sigprocmask(SIG_SETMASK, &set, 0);
        execl("/proc/self/exe", arguments[0], "again", (char *)0);
        return 1;
    }
    sigprocmask(SIG_SETMASK, 0, &set);
    for (int i = 0; i < 3; i++)
        blocked += sigismember(&set, ours[i]);
    signal(SIGTRAP, on_signal);
    raise(SIGTRAP);
    sigpending(&waits);
    printf("%d blocked, %d waits, %d came; ", blocked, sigismember(&waits, SIGTRAP), came);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, 0);
    printf("let in %d\n", came);
    return 0;
}
