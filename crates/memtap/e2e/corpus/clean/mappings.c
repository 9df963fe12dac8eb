// Anonymous mappings that grow, shrink, are moved and are taken away in parts.
// command: errors
// expect: nothing
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/mman.h>
#include "../hide.h"

int main(void)
{
    char *pages = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pages = HIDE(pages);
    pages[0] = pages[65535] = 1;
    munmap(pages + 32768, 32768);
    pages = HIDE((char *)mremap(pages, 32768, 262144, MREMAP_MAYMOVE));
    pages[262143] = pages[0];
    madvise(pages, 4096, MADV_DONTNEED);
    int first = HIDE(pages[0]);
    munmap(pages, 262144);
    return first == 77;
}
