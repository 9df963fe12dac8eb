// A mapping is taken away and another one comes to its place.
// command: errors
// expect: nothing
#include <sys/mman.h>
#include "../hide.h"

int main(void)
{
    for (int i = 0; i < 5; i++) {
        char *pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pages = HIDE(pages);
        pages[i * 1000] = 1;
        SHOW(pages);
        munmap(pages, 8192);
    }
    return 0;
}
