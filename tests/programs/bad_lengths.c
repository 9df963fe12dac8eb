// Lengths that no memory has: the kernel's errors, as natively.
// lackey: no
// stdout: mmap 12 munmap 22 mremap 22 mprotect 12 madvise 22 still 7
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

int main(void)
{
    size_t most = (size_t)-1;
    int *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int errors[5] = {0};
    *page = 7;
    errors[0] = mmap(0, most, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? errno : 0;
    errors[1] = munmap(page, most) ? errno : 0;
    errors[2] = mremap(page, 4096, most, MREMAP_MAYMOVE) == MAP_FAILED ? errno : 0;
    errors[3] = mprotect(page, most, PROT_READ) ? errno : 0;
    errors[4] = madvise(page, most, MADV_DONTNEED) ? errno : 0;
    printf("mmap %d munmap %d mremap %d mprotect %d madvise %d still %d\n", errors[0], errors[1], errors[2], errors[3], errors[4], *page);
    return 0;
}
