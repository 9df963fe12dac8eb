// Denies itself system calls as sandboxes do, accesses more than a buffer holds, and ends by a plain call:
// denies_itself strict | errno | kill | files | trap. files denies files, signals and advice alone, by the end of the process; trap denies some calls by
// a signal, and makes one of them. With another argument it has a second thread.
// build: -pthread
// args: errno
// stdout: sum 44999850000
// status: 5
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define IF(number, action) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, action)
#define IS_ALLOWED(number) IF(number, SECCOMP_RET_ALLOW)
#define KILLS(number) IF(number, SECCOMP_RET_KILL_PROCESS)
#define OTHERS(action) BPF_STMT(BPF_RET | BPF_K, action)

static volatile char cells[1000];

static int install(struct sock_filter *filter, unsigned short len) {
    struct sock_fprog program = {len, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void *waits(void *unused) {
    pause();
    return unused;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "errno";
    pthread_t thread;
    if (argc > 2 && pthread_create(&thread, 0, waits, 0))
        return 8;
    struct sock_filter few[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        IS_ALLOWED(SYS_read),
        IS_ALLOWED(SYS_write),
        IS_ALLOWED(SYS_exit),
        IS_ALLOWED(SYS_exit_group),
        IS_ALLOWED(SYS_rt_sigreturn),
        OTHERS(strcmp(what, "kill") ? SECCOMP_RET_ERRNO | 1 : SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_filter no_files[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        KILLS(SYS_openat),
        KILLS(SYS_open),
        KILLS(SYS_kill),
        KILLS(SYS_process_vm_readv),
        KILLS(SYS_madvise),
        OTHERS(SECCOMP_RET_ALLOW),
    };
    struct sock_filter traps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        IF(SYS_getppid, SECCOMP_RET_TRAP),
        IF(SYS_readlink, SECCOMP_RET_TRAP),
        OTHERS(SECCOMP_RET_ALLOW),
    };
    int failed;
    if (!strcmp(what, "strict"))
        failed = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    else if (!strcmp(what, "files"))
        failed = install(no_files, sizeof no_files / sizeof *no_files);
    else if (!strcmp(what, "trap"))
        failed = install(traps, sizeof traps / sizeof *traps);
    else
        failed = install(few, sizeof few / sizeof *few);
    if (failed)
        return 9;
    if (!strcmp(what, "trap"))
        getppid();
    volatile long sum = 0;
    for (int round = 0; round < 300000; round++) {
        sum += round;
        cells[round % 1000] = round;
    }
    char line[64];
    int len = snprintf(line, sizeof line, "sum %ld\n", sum);
    write(1, line, len);
    syscall(argc > 2 ? SYS_exit_group : SYS_exit, 5);
}
