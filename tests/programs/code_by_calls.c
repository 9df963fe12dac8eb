// Writes code by system calls and executes it: its own memory through /proc/self/mem, where it may be written and where not, and a memory
// file that is mapped to be executed. Each way 20 times; what is executed returns the number of the turn.
// lackey: no
// stdout: mem 190, read-only 190, seek 190, vm 190, file 190, position 190, vector 190, sendfile 190
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BYTES = 6, TURNS = 20 };

static unsigned char code[BYTES] = {0xb8, 0, 0, 0, 0, 0xc3};

static int executed(void *at) {
    return ((int (*)(void))at)();
}

int main(void) {
    long sums[8] = {0};
    void *open_page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *shut = mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int memory = open("/proc/self/mem", O_RDWR), file = memfd_create("code", 0), source = memfd_create("source", 0);
    if (memory < 0 || file < 0 || ftruncate(file, 4096))
        return 1;
    void *shown = mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
    for (int turn = 0; turn < TURNS; turn++) {
        struct iovec vector = {code, BYTES}, place = {open_page, BYTES};
        off_t begin = 0;
        code[1] = turn;
        if (pwrite(memory, code, BYTES, (off_t)open_page) == BYTES)
            sums[0] += executed(open_page);
        if (pwrite(memory, code, BYTES, (off_t)shut) == BYTES)
            sums[1] += executed(shut);
        memset(open_page, 0xcc, BYTES);
        lseek(memory, (off_t)open_page, SEEK_SET);
        if (write(memory, code, BYTES) == BYTES)
            sums[2] += executed(open_page);
        memset(open_page, 0xcc, BYTES);
        if (process_vm_writev(getpid(), &vector, 1, &place, 1, 0) == BYTES)
            sums[3] += executed(open_page);
        if (pwrite(file, code, BYTES, 0) == BYTES)
            sums[4] += executed(shown);
        lseek(file, 64, SEEK_SET);
        if (write(file, code, BYTES) == BYTES)
            sums[5] += executed((char *)shown + 64);
        lseek(file, 128, SEEK_SET);
        if (writev(file, &vector, 1) == BYTES)
            sums[6] += executed((char *)shown + 128);
        lseek(file, 192, SEEK_SET);
        if (pwrite(source, code, BYTES, 0) == BYTES && sendfile(file, source, &begin, BYTES) == BYTES)
            sums[7] += executed((char *)shown + 192);
    }
    printf("mem %ld, read-only %ld, seek %ld, vm %ld, file %ld, position %ld, vector %ld, sendfile %ld\n", sums[0], sums[1],
           sums[2], sums[3], sums[4], sums[5], sums[6], sums[7]);
    return 0;
}
