// A crash handler: a child attaches to its parent, which has just faulted, reads its registers and its memory, and lets it go.
// stdout: attached 0, stop 19, registers 0, value 4711
// stdout: on again
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long value = 4711;
static sigjmp_buf out;

static void look(pid_t parent) {
    int status = 0;
    struct user_regs_struct registers;
    long attached = ptrace(PTRACE_ATTACH, parent, 0, 0);
    waitpid(parent, &status, __WALL);
    // One of memtap's may come before that of attaching: the parent goes on with it, as under any debugger.
    while (WIFSTOPPED(status) && WSTOPSIG(status) != SIGSTOP) {
        ptrace(PTRACE_CONT, parent, 0, WSTOPSIG(status));
        waitpid(parent, &status, __WALL);
    }
    long got = ptrace(PTRACE_GETREGS, parent, 0, &registers);
    long word = ptrace(PTRACE_PEEKDATA, parent, (void *)&value, 0);
    printf("attached %ld, stop %d, registers %ld, value %ld\n", attached, WSTOPSIG(status), got, word);
    fflush(stdout);
    ptrace(PTRACE_DETACH, parent, 0, 0);
    _exit(0);
}

static void crashed(int signal) {
    (void)signal;
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        look(parent);
    prctl(PR_SET_PTRACER, pid, 0, 0, 0);
    while (waitpid(pid, 0, 0) < 0)
        ;
    siglongjmp(out, 1);
}

int main(void) {
    signal(SIGSEGV, crashed);
    if (sigsetjmp(out, 1) == 0)
        *(volatile int *)8 = 1;
    puts("on again");
    return 0;
}
