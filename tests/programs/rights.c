// What the kernel, and functions that move bytes, find where the program has no right: EFAULT, and SIGSEGV at the program's address.
// lackey: no
// stdout: all 128 right
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

enum { PAGE = 4096, BOTH = PROT_READ | PROT_WRITE };

static int wrong, checks, zero, null, directory;
static sigjmp_buf back;
static volatile int code;
static char *volatile address;

static void is(const char *what, long expected, long found)
{
    checks++;
    if (found != expected) {
        wrong++;
        printf("%s: %ld, not %ld\n", what, found, expected);
    }
}

static long outcome(long result)
{
    return result == -1 ? -errno : result;
}

static char *map(int rights, int flags)
{
    char *place = mmap(0, 4 * PAGE, rights, flags | MAP_ANONYMOUS, -1, 0);
    return place == MAP_FAILED ? 0 : place;
}

// What calls say of a page of these rights. The program itself does not touch it.
static void calls(const char *what, char *page, int rights)
{
    int readable = rights != PROT_NONE, writable = rights & PROT_WRITE, pair[2];
    char buffer[64] = "left";
    struct iovec own[2] = {{buffer, 8}, {page, 8}}, *list = (struct iovec *)(page + 2048);
    is(what, writable ? 8 : -EFAULT, outcome(syscall(SYS_read, zero, page, 8)));
    is(what, writable ? 16 : 8, outcome(syscall(SYS_readv, zero, own, 2)));
    is(what, writable ? 0 : -EFAULT, outcome(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, page)));
    is(what, writable ? 0 : -EFAULT, outcome(syscall(SYS_uname, page)));
    is(what, writable ? 0 : -EFAULT, outcome(syscall(SYS_newfstatat, AT_FDCWD, "/", page, 0)));
    is(what, writable ? 2 : -EFAULT, outcome(syscall(SYS_getcwd, page, 100)));
    is(what, writable ? 0 : -EFAULT, outcome(syscall(SYS_rt_sigprocmask, SIG_BLOCK, 0, page, 8)));
    long made = outcome(syscall(SYS_pipe, page));
    is(what, writable ? 0 : -EFAULT, made);
    if (made == 0) {
        memcpy(pair, page, sizeof pair);
        close(pair[0]);
        close(pair[1]);
    }
    // What is there, or none of it.
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
        wrong++;
    is(what, readable ? 8 : -EFAULT, outcome(syscall(SYS_write, pair[0], page, 8)));
    close(pair[0]);
    close(pair[1]);
    is(what, readable ? 0 : -EFAULT, outcome(syscall(SYS_writev, null, list, 1)));
    is(what, readable ? -ENOENT : -EFAULT, outcome(syscall(SYS_open, page + 1000, O_RDONLY)));
}

// The headers of messages are written, too.
static void messages(char *page)
{
    int pair[2];
    char byte = 'x';
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair))
        wrong++;
    struct iovec *list = (struct iovec *)page;
    struct msghdr *header = (struct msghdr *)(page + 64);
    memset(page, 0, PAGE);
    *list = (struct iovec){page + 256, 16};
    *header = (struct msghdr){.msg_iov = list, .msg_iovlen = 1};
    send(pair[0], &byte, 1, 0);
    is("recvmsg", 1, outcome(syscall(SYS_recvmsg, pair[1], header, MSG_DONTWAIT)));
    send(pair[0], &byte, 1, 0);
    mprotect(page, PAGE, PROT_READ);
    is("recvmsg", -EFAULT, outcome(syscall(SYS_recvmsg, pair[1], header, MSG_DONTWAIT)));
    is("sendmsg", 16, outcome(syscall(SYS_sendmsg, pair[0], header, MSG_DONTWAIT)));
    mprotect(page, PAGE, PROT_NONE);
    is("sendmsg", -EFAULT, outcome(syscall(SYS_sendmsg, pair[0], header, MSG_DONTWAIT)));
    mprotect(page, PAGE, BOTH);
    close(pair[0]);
    close(pair[1]);
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    code = info->si_code;
    address = info->si_addr;
    siglongjmp(back, 1);
}

// Functions that the compiler is not to know.
static void *(*volatile copy)(void *, const void *, size_t) = memcpy;
static void *(*volatile move)(void *, const void *, size_t) = memmove;
static void *(*volatile fill)(void *, int, size_t) = memset;
static char *(*volatile copy_string)(char *, const char *) = strcpy;
static char *(*volatile append)(char *, const char *) = strcat;
static wchar_t *(*volatile fill_wide)(wchar_t *, wchar_t, size_t) = wmemset;
static size_t (*volatile length)(const char *) = strlen;
static int (*volatile compare)(const void *, const void *, size_t) = memcmp;
static int (*volatile compare_strings)(const char *, const char *) = strcmp;
static void *(*volatile find)(const void *, int, size_t) = memchr;

#define FAULTS(name, page, call) \
    do { \
        code = 0; \
        address = 0; \
        if (!sigsetjmp(back, 1)) \
            call; \
        is(name, SEGV_ACCERR, code); \
        is(name, (long)(page), (long)address & -PAGE); \
    } while (0)

// Functions on a page that begins with a string of nothing.
static void blocks(char *page, int rights)
{
    char own[64] = "own";
    FAULTS("memcpy", page, copy(page, own, 40));
    FAULTS("memmove", page, move(page, own, 4));
    FAULTS("memset", page, fill(page, 7, PAGE));
    FAULTS("strcpy", page, copy_string(page, own));
    FAULTS("strcat", page, append(page, ""));
    FAULTS("wmemset", page, fill_wide((wchar_t *)page, 7, 5));
    if (rights == PROT_NONE) {
        FAULTS("memcpy from", page, copy(own, page, 40));
        FAULTS("strlen", page, length(page));
        FAULTS("memcmp", page, compare(page, own, 4));
        FAULTS("strcmp", page, compare_strings(own, page));
        FAULTS("memchr", page, find(page, 1, 4));
        FAULTS("strcat from", page, append(own, page));
    }
}

// A handler that gives the right, and the function goes on.
static void on_fault_open(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    code++;
    mprotect((void *)((long)info->si_addr & -PAGE), PAGE, BOTH);
}

int main(void)
{
    zero = open("/dev/zero", O_RDWR);
    null = open("/dev/null", O_RDWR);
    directory = chdir("/");
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, 0);
    const int private = MAP_PRIVATE, shared = MAP_SHARED;

    calls("mapped without rights", map(PROT_NONE, private), PROT_NONE);
    calls("mapped read-only", map(PROT_READ, private), PROT_READ);
    calls("shared, read-only", map(PROT_READ, shared), PROT_READ);
    char *place = map(BOTH, private);
    calls("open", place, BOTH);
    messages(place);
    place[PAGE] = place[2 * PAGE] = 1;
    mprotect(place, 3 * PAGE, PROT_NONE);
    calls("closed", place, PROT_NONE);
    is("two pages", -EFAULT, outcome(syscall(SYS_read, zero, place + PAGE, 2 * PAGE)));
    mprotect(place + PAGE, PAGE, PROT_READ);
    calls("read-only between closed ones", place + PAGE, PROT_READ);
    mprotect(place + PAGE, PAGE, BOTH);
    is("up to a closed page", PAGE, outcome(syscall(SYS_read, zero, place + PAGE, 2 * PAGE)));
    is("no such right", -EINVAL, outcome(mprotect(place, PAGE, 0x40)));

    // In a child, and what the parent could not read is there.
    place[PAGE] = 2;
    pid_t child = fork();
    if (child == 0) {
        checks = wrong = 0;
        is("child", -EFAULT, outcome(syscall(SYS_read, zero, place, 8)));
        is("child", -EFAULT, outcome(syscall(SYS_write, null, place, 0) ? -1 : syscall(SYS_uname, place)));
        mprotect(place, 3 * PAGE, PROT_READ);
        is("child", 2, place[PAGE]);
        is("child", 1, place[2 * PAGE]);
        is("child", -EFAULT, outcome(syscall(SYS_read, zero, place, 8)));
        fflush(stdout);
        _exit(wrong);
    }
    int status = -1;
    waitpid(child, &status, 0);
    is("child", 0, status);

    // Moved, with what nobody may read.
    char *moved = mremap(place + 2 * PAGE, PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, map(PROT_NONE, private));
    is("moved", -EFAULT, outcome(syscall(SYS_uname, moved)));
    is("moved and grown", -EFAULT, outcome(syscall(SYS_uname, moved + PAGE)));
    mprotect(moved, 2 * PAGE, PROT_READ);
    is("moved", 1, moved[0]);
    is("grown", 0, moved[PAGE]);
    is("moved, read-only", -EFAULT, outcome(syscall(SYS_uname, moved)));

    // What may only be read is given up all the same.
    is("given up", 0, outcome(madvise(moved, PAGE, MADV_DONTNEED)));
    is("given up", 0, moved[0]);
    is("given up, read-only", -EFAULT, outcome(syscall(SYS_uname, moved)));
    is("no file to remove from", -EINVAL, outcome(madvise(moved, PAGE, MADV_REMOVE)));
    char *common = map(BOTH, shared);
    common[0] = 1;
    is("shared stays", 0, outcome(madvise(common, PAGE, MADV_DONTNEED)));
    is("shared stays", 1, common[0]);
    is("removed", 0, outcome(madvise(common, PAGE, MADV_REMOVE)));
    is("removed", 0, common[0]);

    char *page = map(BOTH, private);
    mprotect(page, PAGE, PROT_READ);
    blocks(page, PROT_READ);
    mprotect(page, PAGE, PROT_NONE);
    blocks(page, PROT_NONE);

    action.sa_sigaction = on_fault_open;
    sigaction(SIGSEGV, &action, 0);
    code = 0;
    fill_wide((wchar_t *)page, 7, 5);
    is("opened by the handler", 1, code);
    is("opened by the handler", 7, ((wchar_t *)page)[4]);
    mprotect(page, PAGE, PROT_NONE);
    is("opened by the handler", 4, (long)length("fill") + (find(page, 7, 4) != page));
    is("opened by the handler", 2, code);

    // The frame of a signal on a stack that can't be written: the process ends by SIGSEGV.
    child = fork();
    if (child == 0) {
        stack_t stack = {.ss_sp = map(BOTH, private), .ss_size = 4 * PAGE};
        sigaltstack(&stack, 0);
        signal(SIGSEGV, SIG_DFL);
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigaction(SIGUSR1, &action, 0);
        mprotect(stack.ss_sp, stack.ss_size, PROT_READ);
        raise(SIGUSR1);
        _exit(0);
    }
    waitpid(child, &status, 0);
    is("frame", SIGSEGV, WTERMSIG(status));

    if (!wrong)
        printf("all %d right\n", checks);
    return wrong != 0;
}
