// Pointers to memory that is not there, given to the kernel: each call fails with EFAULT as natively, and the program goes on.
// lackey: no
// stdout: all 36 calls right
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int wrong, calls;

static void is(int expected, long result)
{
    int error = result == -1 ? errno : 0;
    calls++;
    if (error != expected) {
        wrong++;
        printf("call %d: %d, not %d\n", calls, error, expected);
    }
}

int main(void)
{
    char *bad = (char *)8, buffer[256];
    int zero = open("/dev/zero", O_RDWR), pair[2];
    // A path, an argument, a list.
    is(EFAULT, syscall(SYS_stat, bad, buffer));
    is(EFAULT, syscall(SYS_lstat, bad, buffer));
    is(EFAULT, syscall(SYS_newfstatat, AT_FDCWD, bad, buffer, 0));
    is(EFAULT, syscall(SYS_statx, AT_FDCWD, bad, 0, 0xfff, buffer));
    is(EFAULT, syscall(SYS_open, bad, O_RDONLY));
    is(EFAULT, syscall(SYS_openat, AT_FDCWD, bad, O_RDONLY));
    is(EFAULT, syscall(SYS_access, bad, 0));
    is(EFAULT, syscall(SYS_readlink, bad, buffer, 100));
    is(EFAULT, syscall(SYS_unlink, bad));
    is(EFAULT, syscall(SYS_chdir, bad));
    is(EFAULT, syscall(SYS_rename, bad, bad));
    is(EFAULT, syscall(SYS_execve, bad, 0, 0));
    is(EFAULT, syscall(SYS_execve, "/bin/true", bad, 0));
    is(EFAULT, syscall(SYS_execve, "/bin/true", 0, bad));
    is(EFAULT, syscall(SYS_stat, "/", bad));
    is(EFAULT, syscall(SYS_read, zero, bad, 8));
    is(EFAULT, syscall(SYS_readv, zero, bad, 1));
    is(EFAULT, syscall(SYS_writev, zero, bad, 1));
    is(EFAULT, syscall(SYS_uname, bad));
    is(EFAULT, syscall(SYS_pipe, bad));
    is(EFAULT, syscall(SYS_nanosleep, bad, 0));
    is(EFAULT, syscall(SYS_poll, bad, 3, 0));
    is(EFAULT, syscall(SYS_ppoll, 0, 0, 0, bad, 8));
    // What the tracer makes itself.
    is(EFAULT, syscall(SYS_rt_sigaction, SIGUSR1, bad, 0, 8));
    is(EFAULT, syscall(SYS_rt_sigaction, SIGUSR1, 0, bad, 8));
    is(EFAULT, syscall(SYS_rt_sigprocmask, SIG_BLOCK, bad, 0, 8));
    is(EFAULT, syscall(SYS_rt_sigprocmask, SIG_BLOCK, 0, bad, 8));
    is(EINVAL, syscall(SYS_rt_sigprocmask, SIG_BLOCK, 0, 0, 4));
    is(EFAULT, syscall(SYS_sigaltstack, bad, 0));
    is(EFAULT, syscall(SYS_sigaltstack, 0, bad));
    is(EFAULT, syscall(SYS_clone3, bad, 88));
    is(EINVAL, syscall(SYS_clone3, bad, 8));
    is(EFAULT, syscall(SYS_rt_sigtimedwait, bad, 0, 0, 8));
    // What is wrong with the descriptor is told first.
    is(ENOTSOCK, syscall(SYS_recvmsg, zero, bad, 0));
    is(ENOTSOCK, syscall(SYS_sendmmsg, zero, bad, 2, 0));
    is(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    if (!wrong)
        printf("all %d calls right\n", calls);
    return 0;
}
