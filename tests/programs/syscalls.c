// System calls with pointers into protected memory: all work as natively, and their effect is logged as block events.
// lackey: no
// block: read bytes=10 count=1 dst=buffer
// block: pread bytes=6 count=1 dst=buffer
// block: write bytes=10 count=1 src=text
// block: pwrite bytes=4 count=1 src=text
// block: readv bytes=3 count=2 dst=buffer
// block: writev bytes=3 count=2 src=text
// block: send bytes=5 count=2 src=text
// block: recv bytes=5 count=2 dst=buffer
// stdout: all 32 calls right
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

char directory[] = "/tmp/memtap-syscalls-XXXXXX";
char path[256], other_path[256], buffer[4096], text[] = "0123456789abcdef";
struct stat status;
struct iovec parts[2];
struct msghdr message;
struct pollfd polled;
struct epoll_event event;
struct timespec when;
struct timeval now;
struct rlimit limit;
struct utsname names;
struct sysinfo info;
struct sockaddr_un address;
socklen_t address_len;
fd_set set;
int pair[2], tube[2], bytes_waiting, word;
char *arguments[] = {"sh", "-c", "exit $((${#VALUE} + $#))", "sh", "a", "b", 0};
char *environment[] = {"VALUE=12345", "PATH=/usr/bin:/bin", 0};
static int right, line[64], lines;

static void check(int ok, int at)
{
    if (ok)
        right++;
    else if (lines < 64)
        line[lines++] = at;
}
#define CHECK(condition) check((condition) != 0, __LINE__)

int main(void)
{
    CHECK(mkdtemp(directory) != 0);
    snprintf(path, sizeof path, "%s/file", directory);
    snprintf(other_path, sizeof other_path, "%s/other", directory);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0);
    CHECK(write(fd, text, 10) == 10);
    CHECK(pwrite(fd, text + 10, 4, 10) == 4);
    CHECK(lseek(fd, 0, SEEK_SET) == 0 && read(fd, buffer, 10) == 10 && !memcmp(buffer, text, 10));
    CHECK(pread(fd, buffer + 100, 6, 8) == 6 && !memcmp(buffer + 100, text + 8, 6));
    parts[0] = (struct iovec){buffer + 200, 3}, parts[1] = (struct iovec){buffer + 300, 3};
    lseek(fd, 0, SEEK_SET);
    CHECK(readv(fd, parts, 2) == 6 && !memcmp(buffer + 300, text + 3, 3));
    parts[0] = (struct iovec){text, 3}, parts[1] = (struct iovec){text + 4, 3};
    CHECK(writev(fd, parts, 2) == 6);
    CHECK(stat(path, &status) == 0 && status.st_size == 14);
    CHECK(fstat(fd, &status) == 0 && S_ISREG(status.st_mode));
    CHECK(rename(path, other_path) == 0 && access(path, F_OK) == -1 && errno == ENOENT);
    CHECK(symlink(other_path, path) == 0 && readlink(path, buffer, sizeof buffer) == (long)strlen(other_path));
    CHECK(chdir(directory) == 0 && getcwd(buffer, sizeof buffer) && !strcmp(buffer, directory));

    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(send(pair[0], text, 5, 0) == 5 && recv(pair[1], buffer, 5, 0) == 5);
    parts[0] = (struct iovec){text + 5, 5};
    message = (struct msghdr){.msg_iov = parts, .msg_iovlen = 1};
    CHECK(sendmsg(pair[0], &message, 0) == 5);
    CHECK(ioctl(pair[1], FIONREAD, &bytes_waiting) == 0 && bytes_waiting == 5);
    polled = (struct pollfd){.fd = pair[1], .events = POLLIN};
    CHECK(poll(&polled, 1, 0) == 1 && polled.revents == POLLIN);
    FD_ZERO(&set);
    FD_SET(pair[1], &set);
    now = (struct timeval){0, 0};
    CHECK(select(pair[1] + 1, &set, 0, 0, &now) == 1 && FD_ISSET(pair[1], &set));
    int queue = epoll_create1(0);
    event = (struct epoll_event){.events = EPOLLIN, .data.u64 = 77};
    CHECK(epoll_ctl(queue, EPOLL_CTL_ADD, pair[1], &event) == 0);
    memset(&event, 0, sizeof event);
    CHECK(epoll_wait(queue, &event, 1, 0) == 1 && event.data.u64 == 77);
    parts[0] = (struct iovec){buffer, 5};
    CHECK(recvmsg(pair[1], &message, 0) == 5 && !memcmp(buffer, text + 5, 5));
    address.sun_family = AF_UNIX;
    address_len = sizeof address;
    CHECK(getsockname(pair[0], (struct sockaddr *)&address, &address_len) == 0 && address_len == 2);

    CHECK(clock_gettime(CLOCK_REALTIME, &when) == 0 && when.tv_sec > 1000000000);
    when = (struct timespec){0, 1000};
    CHECK(nanosleep(&when, &when) == 0);
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > 0);
    CHECK(uname(&names) == 0 && !strcmp(names.sysname, "Linux"));
    CHECK(sysinfo(&info) == 0 && info.totalram > 0);
    word = 3;
    CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 4, 0, 0, 0) == -1 && errno == EAGAIN);
    CHECK(pipe(tube) == 0);
    pid_t child = fork();
    if (child == 0) {
        execve("/bin/sh", arguments, environment);
        _exit(99);
    }
    CHECK(waitpid(child, &word, 0) == child && WEXITSTATUS(word) == 7);
    // A bad pointer is the program's own mistake, and answered as such.
    CHECK(syscall(SYS_write, fd, (void *)16, 4) == -1 && errno == EFAULT);

    unlink(path), unlink(other_path), rmdir(directory);
    if (!lines)
        printf("all %d calls right\n", right);
    for (int i = 0; i < lines; i++)
        printf("wrong in line %d\n", line[i]);
    return lines != 0;
}
