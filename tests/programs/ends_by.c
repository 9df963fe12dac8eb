// Ends by a signal of its own: ends_by segv | fetch | write | fpe | ill | bus | abort | term | child
// args: segv
// status: 139
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int *volatile nowhere = (int *)0x10;
static volatile int zero;

static int load(void) { return *(volatile int *)nowhere; }

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "segv";
    if (!strcmp(how, "segv"))
        return load();
    if (!strcmp(how, "fetch"))
        ((void (*)(void))0x1234)();
    if (!strcmp(how, "write"))
        *(volatile char *)main = 1;
    if (!strcmp(how, "fpe"))
        return 7 / zero + (zero = 7 % zero);
    if (!strcmp(how, "ill"))
        __asm__ volatile("ud2");
    if (!strcmp(how, "bus")) {
        int file = memfd_create("empty", 0);
        volatile char *page = mmap(0, 4096, PROT_READ, MAP_SHARED, file, 0);
        return *page;
    }
    if (!strcmp(how, "abort"))
        abort();
    if (!strcmp(how, "term"))
        kill(getpid(), SIGTERM);
    if (!strcmp(how, "child")) {
        if (fork() == 0)
            return load();
        int status = 0;
        wait(&status);
        return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    }
    return 0;
}
