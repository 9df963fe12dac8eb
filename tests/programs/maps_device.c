// Maps a device whose bytes have no end: a mapped file that is not to be read.
// lackey: no
// stdout: 7 0
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

int main(void)
{
    int device = open("/dev/zero", O_RDWR);
    volatile int *page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, device, 0);
    page[0] = 7;
    printf("%d %d\n", page[0], page[1024]);
    return 0;
}
