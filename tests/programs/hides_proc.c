// Executes its first argument where nothing is mounted at /proc any more: in a mount namespace of its own. 77: that is not allowed here.
#define _GNU_SOURCE
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 2 || unshare(CLONE_NEWUSER | CLONE_NEWNS) || mount(0, "/", 0, MS_REC | MS_PRIVATE, 0) ||
        mount("none", "/proc", "tmpfs", 0, 0))
        return 77;
    execv(argv[1], argv + 1);
    return 78;
}
