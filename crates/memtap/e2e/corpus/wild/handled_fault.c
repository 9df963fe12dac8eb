// A handler of SIGSEGV opens the page that was accessed, and the access comes again.
// command: errors
// expect: nothing
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include "../hide.h"

static void open_page(int signal, siginfo_t *info, void *context)
{
    uintptr_t page = (uintptr_t)info->si_addr & ~(uintptr_t)4095;
    mprotect((void *)page, 4096, PROT_READ | PROT_WRITE);
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = open_page, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    char *pages = mmap(0, 16384, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pages = HIDE(pages);
    for (int i = 0; i < 4; i++)
        *HIDE(pages + 4096 * i) = 1;
    munmap(pages, 16384);
    return 0;
}
