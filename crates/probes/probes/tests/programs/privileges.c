// A server's way of giving up its rights, in a forked child that has a helper thread of the profiler.
//
// With an argument it waits for a line first, so that it can be attached to before it forks.
#define _GNU_SOURCE
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) int work(int x) {
    asm volatile("");
    return x + 1;
}

__attribute__((noinline)) int unprivileged(int x) {
    asm volatile("");
    return x + 1;
}

static void give_up_rights(void) {
    if (getuid() == 0) {
        struct rlimit none = {0, 0};
        if (chroot("/var/empty") != 0 && chroot("/proc") != 0) _exit(2);
        if (chdir("/") != 0 || setgroups(0, NULL) != 0) _exit(3);
        if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0) _exit(4);
        for (int fd = 3; fd < 1000; fd++) close(fd);
        if (setrlimit(RLIMIT_NOFILE, &none) != 0 || setrlimit(RLIMIT_FSIZE, &none) != 0) _exit(5);
    } else if (setgid(getgid()) != 0 || setuid(getuid()) != 0) {
        _exit(6);
    }
}

int main(int count, char **arguments) {
    if (count > 1) {
        puts("ready");
        fflush(stdout);
        char line[2];
        if (!fgets(line, sizeof line, stdin)) line[0] = 0;
    }
    int sum = 0;
    for (int i = 0; i < 1000; i++) sum += work(i);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 1000; i++) sum += work(i);
        give_up_rights();
        for (int i = 0; i < 1000; i++) sum += unprivileged(i);
        if (write(1, "child\n", 6) != 6) _exit(7);
        if (count > 1 && !strcmp(arguments[1], "stay")) sleep(3);
        exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    if (setgid(getgid()) != 0) return 1;
    printf("child %d, sum %d\n", status, sum);
    return 0;
}
