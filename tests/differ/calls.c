// One system call with arguments that a careful program would not give: pointers to nowhere, to the end of what is mapped, to memory
// that can't be written, lengths without end, descriptors that are none. None of these calls can do harm: files are only read, and all
// that is written is the step's own memory.
#define _GNU_SOURCE
#include "differ.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

// What an argument is drawn from.
enum argument {
    NONE,
    // Memory of at least 512 bytes, or no memory at all.
    POINTER,
    // A path, or what is none.
    PATH,
    // A list of up to four buffers, or what is none.
    BUFFERS,
    // 512 bytes that are zero, or what is none.
    ZEROES,
    // The same, for a time after which a call no longer waits: none of them waits for ever.
    TIMEOUT,
    LENGTH,
    FILE_NUMBER,
    SOCKET,
    SIGNAL,
    // The size of a set of signals.
    SET_SIZE,
    // Less than 4, 16, 64.
    FEW,
    SOME,
    MANY,
    ZERO,
    SELF,
    ANYTHING,
    WHERE_IN_FILE,
};

// What can be said of the outcome.
enum outcome {
    // Its value, and the memory then.
    EXACT,
    // Its value; the memory has times or addresses in it.
    VALUE,
    // Whether it failed, and how.
    FAILURE,
    // Its value is a new descriptor, which is closed.
    DESCRIPTOR,
    // The memory has two new descriptors, which are closed.
    PAIR,
};

static const struct call {
    const char *name;
    long number;
    enum outcome outcome;
    enum argument arguments[6];
} CALLS[] = {
    {"read", SYS_read, EXACT, {FILE_NUMBER, POINTER, LENGTH}},
    {"write", SYS_write, EXACT, {FILE_NUMBER, POINTER, LENGTH}},
    {"pread64", SYS_pread64, EXACT, {FILE_NUMBER, POINTER, LENGTH, WHERE_IN_FILE}},
    {"pwrite64", SYS_pwrite64, EXACT, {FILE_NUMBER, POINTER, LENGTH, WHERE_IN_FILE}},
    {"readv", SYS_readv, EXACT, {FILE_NUMBER, BUFFERS, FEW}},
    {"writev", SYS_writev, EXACT, {FILE_NUMBER, BUFFERS, FEW}},
    {"preadv", SYS_preadv, EXACT, {FILE_NUMBER, BUFFERS, FEW, WHERE_IN_FILE}},
    {"preadv2", SYS_preadv2, EXACT, {FILE_NUMBER, BUFFERS, FEW, WHERE_IN_FILE, ZERO, FEW}},
    {"pwritev", SYS_pwritev, EXACT, {FILE_NUMBER, BUFFERS, FEW, WHERE_IN_FILE}},
    {"open", SYS_open, DESCRIPTOR, {PATH, ZERO}},
    {"openat", SYS_openat, DESCRIPTOR, {FILE_NUMBER, PATH, ZERO}},
    {"stat", SYS_stat, FAILURE, {PATH, POINTER}},
    {"lstat", SYS_lstat, FAILURE, {PATH, POINTER}},
    {"fstat", SYS_fstat, FAILURE, {FILE_NUMBER, POINTER}},
    {"newfstatat", SYS_newfstatat, FAILURE, {FILE_NUMBER, PATH, POINTER, ZERO}},
    {"statx", SYS_statx, FAILURE, {FILE_NUMBER, PATH, ZERO, MANY, POINTER}},
    {"statfs", SYS_statfs, FAILURE, {PATH, POINTER}},
    {"access", SYS_access, EXACT, {PATH, SOME}},
    {"faccessat", SYS_faccessat, EXACT, {FILE_NUMBER, PATH, FEW}},
    {"readlink", SYS_readlink, EXACT, {PATH, POINTER, LENGTH}},
    {"readlinkat", SYS_readlinkat, EXACT, {FILE_NUMBER, PATH, POINTER, LENGTH}},
    {"getcwd", SYS_getcwd, EXACT, {POINTER, LENGTH}},
    {"chdir", SYS_chdir, EXACT, {POINTER}},
    {"execve", SYS_execve, EXACT, {POINTER, POINTER, POINTER}},
    {"execveat", SYS_execveat, EXACT, {FILE_NUMBER, POINTER, POINTER, POINTER, ZERO}},
    {"getdents64", SYS_getdents64, FAILURE, {FILE_NUMBER, POINTER, LENGTH}},
    {"lseek", SYS_lseek, EXACT, {FILE_NUMBER, WHERE_IN_FILE, FEW}},
    {"ioctl", SYS_ioctl, EXACT, {FILE_NUMBER, ANYTHING, POINTER}},
    {"fcntl", SYS_fcntl, VALUE, {FILE_NUMBER, FEW, ZERO}},
    {"uname", SYS_uname, EXACT, {POINTER}},
    {"sysinfo", SYS_sysinfo, FAILURE, {POINTER}},
    {"getrusage", SYS_getrusage, FAILURE, {FEW, POINTER}},
    {"times", SYS_times, FAILURE, {POINTER}},
    {"gettimeofday", SYS_gettimeofday, FAILURE, {POINTER, POINTER}},
    {"time", SYS_time, FAILURE, {POINTER}},
    {"clock_gettime", SYS_clock_gettime, FAILURE, {SOME, POINTER}},
    {"clock_getres", SYS_clock_getres, EXACT, {SOME, POINTER}},
    {"nanosleep", SYS_nanosleep, EXACT, {ZEROES, POINTER}},
    {"clock_nanosleep", SYS_clock_nanosleep, EXACT, {FEW, ZERO, ZEROES, POINTER}},
    {"getrandom", SYS_getrandom, FAILURE, {POINTER, LENGTH, FEW}},
    {"pipe", SYS_pipe, PAIR, {POINTER}},
    {"pipe2", SYS_pipe2, PAIR, {POINTER, ZERO}},
    {"socketpair", SYS_socketpair, PAIR, {FEW, FEW, ZERO, POINTER}},
    {"eventfd2", SYS_eventfd2, DESCRIPTOR, {MANY, FEW}},
    {"epoll_create1", SYS_epoll_create1, DESCRIPTOR, {FEW}},
    {"timerfd_create", SYS_timerfd_create, DESCRIPTOR, {SOME, FEW}},
    {"memfd_create", SYS_memfd_create, DESCRIPTOR, {PATH, FEW}},
    {"signalfd4", SYS_signalfd4, DESCRIPTOR, {FILE_NUMBER, ZEROES, SET_SIZE, ZERO}},
    {"inotify_init1", SYS_inotify_init1, DESCRIPTOR, {FEW}},
    {"dup", SYS_dup, DESCRIPTOR, {FILE_NUMBER}},
    {"getsockname", SYS_getsockname, EXACT, {SOCKET, POINTER, POINTER}},
    {"getsockopt", SYS_getsockopt, EXACT, {SOCKET, FEW, SOME, POINTER, POINTER}},
    {"sendto", SYS_sendto, EXACT, {SOCKET, POINTER, LENGTH, MANY, POINTER, FEW}},
    {"recvfrom", SYS_recvfrom, EXACT, {SOCKET, POINTER, LENGTH, MANY, POINTER, POINTER}},
    {"sendmsg", SYS_sendmsg, EXACT, {SOCKET, ZEROES, MANY}},
    {"recvmsg", SYS_recvmsg, EXACT, {SOCKET, ZEROES, MANY}},
    {"connect", SYS_connect, EXACT, {FILE_NUMBER, POINTER, FEW}},
    {"bind", SYS_bind, EXACT, {FILE_NUMBER, POINTER, FEW}},
    {"poll", SYS_poll, EXACT, {ZEROES, FEW, ZERO}},
    {"ppoll", SYS_ppoll, EXACT, {ZEROES, FEW, TIMEOUT, ZEROES, SET_SIZE}},
    {"select", SYS_select, FAILURE, {MANY, ZEROES, ZEROES, ZEROES, TIMEOUT}},
    {"pselect6", SYS_pselect6, FAILURE, {MANY, ZEROES, ZEROES, ZEROES, TIMEOUT, ZEROES}},
    {"epoll_wait", SYS_epoll_wait, EXACT, {FILE_NUMBER, POINTER, FEW, ZERO}},
    {"epoll_ctl", SYS_epoll_ctl, EXACT, {FILE_NUMBER, FEW, FILE_NUMBER, POINTER}},
    {"rt_sigprocmask", SYS_rt_sigprocmask, EXACT, {FEW, POINTER, POINTER, SET_SIZE}},
    {"rt_sigaction", SYS_rt_sigaction, EXACT, {SIGNAL, ZEROES, POINTER, SET_SIZE}},
    {"sigaltstack", SYS_sigaltstack, EXACT, {ZEROES, POINTER}},
    {"rt_sigpending", SYS_rt_sigpending, EXACT, {POINTER, SET_SIZE}},
    {"rt_sigtimedwait", SYS_rt_sigtimedwait, EXACT, {ZEROES, POINTER, TIMEOUT, SET_SIZE}},
    {"rt_sigsuspend", SYS_rt_sigsuspend, EXACT, {ZERO, FEW}},
    {"rt_sigqueueinfo", SYS_rt_sigqueueinfo, EXACT, {SELF, ZERO, POINTER}},
    {"prctl", SYS_prctl, EXACT, {ANYTHING, POINTER}},
    {"arch_prctl", SYS_arch_prctl, FAILURE, {ANYTHING, POINTER}},
    {"getpriority", SYS_getpriority, EXACT, {FEW, ZERO}},
    {"getrlimit", SYS_getrlimit, EXACT, {SOME, POINTER}},
    {"prlimit64", SYS_prlimit64, EXACT, {ZERO, SOME, ZERO, POINTER}},
    {"getgroups", SYS_getgroups, EXACT, {SOME, POINTER}},
    {"getresuid", SYS_getresuid, EXACT, {POINTER, POINTER, POINTER}},
    {"capget", SYS_capget, EXACT, {POINTER, POINTER}},
    {"sched_getaffinity", SYS_sched_getaffinity, EXACT, {ZERO, LENGTH, POINTER}},
    {"sched_getparam", SYS_sched_getparam, EXACT, {ZERO, POINTER}},
    {"sched_rr_get_interval", SYS_sched_rr_get_interval, FAILURE, {ZERO, POINTER}},
    {"getcpu", SYS_getcpu, FAILURE, {POINTER, POINTER, ZERO}},
    {"get_robust_list", SYS_get_robust_list, FAILURE, {ZERO, POINTER, POINTER}},
    {"futex FUTEX_WAIT", SYS_futex, EXACT, {POINTER, ZERO, SOME, TIMEOUT}},
    {"futex FUTEX_WAKE", SYS_futex, EXACT, {POINTER, ZERO, SOME, ZERO}},
    {"futex_waitv", 449, EXACT, {ZEROES, FEW, ZERO, TIMEOUT, FEW}},
    {"getitimer", SYS_getitimer, EXACT, {FEW, POINTER}},
    {"setitimer", SYS_setitimer, EXACT, {FEW, ZEROES, POINTER}},
    {"timer_create", SYS_timer_create, EXACT, {ANYTHING, POINTER, ZERO}},
    {"timer_gettime", SYS_timer_gettime, EXACT, {MANY, POINTER}},
    {"timerfd_gettime", SYS_timerfd_gettime, EXACT, {FILE_NUMBER, POINTER}},
    {"membarrier", SYS_membarrier, EXACT, {ZERO, FEW, ZERO}},
    {"process_vm_readv", SYS_process_vm_readv, EXACT, {SELF, BUFFERS, FEW, BUFFERS, FEW, ZERO}},
    {"process_vm_writev", SYS_process_vm_writev, EXACT, {SELF, BUFFERS, FEW, BUFFERS, FEW, ZERO}},
    {"wait4", SYS_wait4, EXACT, {ANYTHING, POINTER, FEW, POINTER}},
    {"waitid", SYS_waitid, EXACT, {FEW, ZERO, POINTER, FEW, POINTER}},
    {"clone3", SYS_clone3, FAILURE, {POINTER, ANYTHING}},
    {"mincore", SYS_mincore, FAILURE, {POINTER, LENGTH, POINTER}},
    {"sendfile", SYS_sendfile, EXACT, {FILE_NUMBER, FILE_NUMBER, POINTER, MANY}},
    {"splice", SYS_splice, EXACT, {FILE_NUMBER, POINTER, FILE_NUMBER, POINTER, MANY, FEW}},
    {"set_robust_list", SYS_set_robust_list, EXACT, {POINTER, MANY}},
    {"landlock_create_ruleset", 444, EXACT, {POINTER, MANY, MANY}},
    {"mq_open", SYS_mq_open, EXACT, {POINTER, ZERO, ZERO, ZERO}},
    {"io_setup", SYS_io_setup, EXACT, {ZERO, POINTER}},
    {"no such call", 600, EXACT, {ANYTHING, POINTER, LENGTH, MANY, POINTER, ANYTHING}},
    {"call -1", -1, EXACT, {ANYTHING, POINTER, LENGTH, MANY, POINTER, ANYTHING}},
    {"call beyond 32 bits", 0x100000000 + SYS_getppid, FAILURE, {ANYTHING, ANYTHING}},
};

enum { FILES = 9 };
// What FILE_NUMBER is drawn from; the last ones are none.
static int files[FILES];

static void open_files(void)
{
    static bool open;
    if (open)
        return;
    open = true;
    int pipes[2], sockets[2];
    int file = memfd_create("differ", 0);
    if (file < 0 || ftruncate(file, 3 * PAGE) < 0 || pipe2(pipes, O_NONBLOCK) < 0
        || socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, sockets) < 0)
        _exit(96);
    // Numbers that no other run gives to something else in between.
    int numbers[] = {file, pipes[0], pipes[1], sockets[0], sockets[1], openat(AT_FDCWD, "/", O_DIRECTORY)};
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        files[i] = dup2(numbers[i], 200 + (int)i);
        close(numbers[i]);
    }
    files[6] = 190;
    files[7] = -1;
    files[8] = AT_FDCWD;
}

static uint64_t pointer(struct random *random)
{
    switch (below(random, 14)) {
    case 0: return 0;
    case 1: return 1 + below(random, 4095);
    case 2: return (uint64_t)NOTHING + below(random, PAGE);
    case 3: return (uint64_t)CLOSED + below(random, 64);
    case 4: return (uint64_t)READABLE + below(random, 512);
    case 5: return 0xffffffffffffffff - below(random, 64);
    case 6: return 0xffff800000000000 + below(random, 64);
    case 7: return 0x8000000000000000 >> below(random, 16);
    // The end of what can be written, and of what can be read.
    case 8: return (uint64_t)CLOSED - below(random, 64);
    case 9: return (uint64_t)NOTHING - below(random, 16);
    default: return (uint64_t)OPEN + 8 * below(random, (OPEN_BYTES - 2048) / 8);
    }
}

static bool is_open(uint64_t address)
{
    return address >= (uint64_t)OPEN && address <= (uint64_t)CLOSED - 2048;
}

static uint64_t path(struct random *random)
{
    static const char *const PATHS[] = {"/", "", "no such file", "/proc", "/dev/null", "/proc/self/fd/190", "/etc/passwd/x"};
    uint64_t address = pointer(random);
    if (!is_open(address)) {
        // One that ends with its page, or does not.
        if (address > (uint64_t)OPEN && address < (uint64_t)CLOSED)
            ((char *)CLOSED)[-1 - (int64_t)below(random, 2)] = 0;
        return address;
    }
    if (one_in(random, 6))
        memset((char *)OPEN, 'a', OPEN_BYTES);
    else
        strcpy((char *)address, PATHS[below(random, sizeof PATHS / sizeof *PATHS)]);
    return address;
}

static uint64_t buffers(struct random *random)
{
    uint64_t address = pointer(random);
    if (!is_open(address))
        return address;
    struct iovec *list = (struct iovec *)address;
    for (int i = 0; i < 4; i++) {
        list[i].iov_base = (void *)pointer(random);
        list[i].iov_len = one_in(random, 12) ? (size_t)-1 : below(random, 300);
    }
    return address;
}

static uint64_t argument(enum argument kind, struct random *random)
{
    static const uint64_t LENGTHS[] = {0, 1, 7, 8, 63, 64, 512, 4096, 8192, 65536, 0x7ffff000, (uint64_t)-1};
    static const uint64_t NUMBERS[] = {0, 1, (uint64_t)-1, 0x541b, 0x1003, 0x1004, 16, 88, 0x80000000, 0x7fffffffffffffff};
    switch (kind) {
    case POINTER: return pointer(random);
    case PATH: return path(random);
    case BUFFERS: return buffers(random);
    case ZEROES:
    case TIMEOUT: {
        uint64_t address = pointer(random);
        if (address == 0 && kind == TIMEOUT)
            return (uint64_t)READABLE;
        if (is_open(address))
            memset((void *)address, 0, 512);
        return address;
    }
    case LENGTH: return one_in(random, 2) ? below(random, 2048) : LENGTHS[below(random, sizeof LENGTHS / sizeof *LENGTHS)];
    case FILE_NUMBER: return (uint64_t)files[below(random, FILES)];
    case SOCKET: return (uint64_t)files[3 + below(random, 2)];
    // The C library has its own use for 32 and 33.
    case SIGNAL: {
        uint64_t signal = below(random, 70);
        return signal == 32 || signal == 33 ? 31 : signal;
    }
    case SET_SIZE: return one_in(random, 4) ? below(random, 20) : 8;
    case FEW: return below(random, 4);
    case SOME: return below(random, 16);
    case MANY: return below(random, 64);
    case SELF: return (uint64_t)getpid();
    case ANYTHING: return NUMBERS[below(random, sizeof NUMBERS / sizeof *NUMBERS)];
    case WHERE_IN_FILE: return one_in(random, 8) ? (uint64_t)-1 : below(random, 4 * PAGE);
    case NONE:
    case ZERO: break;
    }
    return 0;
}

static long call(long number, const uint64_t *arguments)
{
    register uint64_t r10 __asm__("r10") = arguments[3];
    register uint64_t r8 __asm__("r8") = arguments[4];
    register uint64_t r9 __asm__("r9") = arguments[5];
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(arguments[0]), "S"(arguments[1]), "d"(arguments[2]), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

void step_call(struct random *random)
{
    open_files();
    fill_open(random);
    const struct call *drawn = &CALLS[below(random, sizeof CALLS / sizeof *CALLS)];
    uint64_t arguments[6];
    say(" %s(", drawn->name);
    for (int i = 0; i < 6; i++) {
        arguments[i] = argument(drawn->arguments[i], random);
        if (drawn->arguments[i] != NONE)
            say("%s%#llx", i == 0 ? "" : ", ", drawn->arguments[i] == SELF ? 0ull : (unsigned long long)arguments[i]);
    }
    if (drawn->number == SYS_futex)
        arguments[1] = strstr(drawn->name, "WAIT") != NULL ? 0 : 1;
    say(") =");
    sigset_t none;
    sigemptyset(&none);
    long result = call(drawn->number, arguments);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (drawn->number == SYS_clone3 && result == 0)
        _exit(0);
    if (drawn->number == SYS_clone3 && result > 0)
        waitpid((pid_t)result, NULL, __WALL);
    if (result < 0 && result >= -4095) {
        say(" -%ld", -result);
    } else if (drawn->outcome == EXACT || drawn->outcome == VALUE) {
        say(" %ld", result);
    } else {
        say(" done");
    }
    // The restorer of an action is the C library's, which is elsewhere in each run.
    uint64_t old_action = arguments[2];
    if (drawn->number == SYS_rt_sigaction && result == 0 && old_action >= (uint64_t)OPEN && old_action + 32 <= (uint64_t)CLOSED)
        memset((char *)old_action + 16, 0, 8);
    if (result >= 0 && drawn->outcome == DESCRIPTOR) {
        say(" %ld", result);
        close((int)result);
    }
    bool same_memory = drawn->outcome == EXACT || drawn->outcome == PAIR;
    if (same_memory)
        say(" %016llx", (unsigned long long)hash_open());
    if (result == 0 && drawn->outcome == PAIR) {
        int pair[2];
        memcpy(pair, (void *)arguments[drawn->number == SYS_socketpair ? 3 : 0], sizeof pair);
        close(pair[0]);
        close(pair[1]);
    }
}
