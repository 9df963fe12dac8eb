// A program ignores signals that memtap lives on, tries to become one that there is not, and becomes itself: what it ignored is still ignored
// then, also by its child, and what it did not is not.
// lackey: no
// stdout: before: 1 0 1, after: 1 0 1, sent: 1 1, child: 1 0 1
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int is_ignored(int number)
{
    struct sigaction action;
    sigaction(number, NULL, &action);
    return action.sa_handler == SIG_IGN;
}

static void show(const char *when)
{
    printf("%s: %d %d %d", when, is_ignored(SIGTRAP), is_ignored(SIGSEGV), is_ignored(SIGSYS));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc == 1) {
        signal(SIGTRAP, SIG_IGN);
        signal(SIGSYS, SIG_IGN);
        execl("/no/such/program", argv[0], NULL);
        show("before");
        execl("/proc/self/exe", argv[0], "again", NULL);
        return 1;
    }
    if (argc == 2) {
        show(", after");
        printf(", sent: %d %d", raise(SIGTRAP) == 0, raise(SIGSYS) == 0);
        fflush(stdout);
        if (fork() == 0)
            execl("/proc/self/exe", argv[0], "again", "once more", NULL);
        int status;
        wait(&status);
        puts("");
        return WEXITSTATUS(status);
    }
    show(", child");
    return 0;
}
