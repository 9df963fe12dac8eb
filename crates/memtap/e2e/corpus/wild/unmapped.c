// Loads from a mapping that was taken away.
// command: errors
// expect: use_after_free
#include <sys/mman.h>
#include "../hide.h"

int main(void)
{
    char *pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pages[5000] = 1;
    SHOW(pages);
    munmap(pages, 8192);
    return HIDE(HIDE(pages)[5000]) == 77; // here
}
