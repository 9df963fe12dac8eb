// Mappings appear, grow, move, shrink, change rights and go; the heap grows by brk.
// lackey: no
// expect: <memmap@anonymous> size=4 loads=10 stores=100
// expect: <memmap@before_move> size=4 stores=16
// expect: <mremap@move> size=4 loads=16 stores=8
// expect: <memmap@whole> size=4 loads=4 stores=4
// alloc: mmap=7 mremap=1
// stderr: 45 120 6 1 1 zero 0
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "access.h"

#define PAGE 4096l
#define FUNCTION __attribute__((noinline, noclone)) static
#define RW (PROT_READ | PROT_WRITE)
#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)

FUNCTION int *anonymous(void) { return mmap(0, 100 * PAGE, RW, PRIVATE, -1, 0); }
FUNCTION int *before_move(void) { return mmap(0, 16 * PAGE, RW, PRIVATE, -1, 0); }
FUNCTION int *move(int *old) { return mremap(old, 16 * PAGE, 64 * PAGE, MREMAP_MAYMOVE); }
FUNCTION char *whole(void) { return mmap(0, 4 * PAGE, RW, PRIVATE, -1, 0); }

int main(void)
{
    long sum = 0, moved = 0, kept = 0;
    int *block = anonymous();
    REPEAT(100) STORE(block[i_ * 1024], i_);
    REPEAT(10) sum += LOAD(block[i_ * 1024]);
    munmap(block, 100 * PAGE);

    int *old = before_move();
    REPEAT(16) STORE(old[i_ * 1024], i_);
    int *new = move(old);
    REPEAT(16) moved += LOAD(new[i_ * 1024]);
    REPEAT(8) STORE(new[(20 + i_) * 1024], 1);
    munmap(new, 64 * PAGE);

    // Unmapped in the middle: the rest stays.
    char *parts = whole();
    REPEAT(4) STORE(*(int *)(parts + i_ * PAGE), i_);
    munmap(parts + PAGE, PAGE);
    REPEAT(4) kept += i_ == 1 ? 1 : LOAD(*(int *)(parts + i_ * PAGE));
    kept += LOAD(*(int *)parts);

    // A fixed mapping replaces what was there, and is zero.
    char *again = mmap(parts + 2 * PAGE, PAGE, RW, PRIVATE | MAP_FIXED, -1, 0);
    int fixed = again == parts + 2 * PAGE && *(volatile int *)again == 0;

    // A shared and a private view of one file.
    char path[] = "/tmp/memtap-mappings-XXXXXX";
    int fd = mkstemp(path);
    unlink(path);
    if (fd < 0 || ftruncate(fd, PAGE))
        return 1;
    volatile char *shared = mmap(0, PAGE, RW, MAP_SHARED, fd, 0), *private = mmap(0, PAGE, RW, MAP_PRIVATE, fd, 0);
    shared[0] = 'a';
    int views = private[0] == 'a';
    private[0] = 'b';
    char on_disk = 0;
    views &= shared[0] == 'a' && pread(fd, &on_disk, 1, 0) == 1 && on_disk == 'a';

    // Rights: read-only and back, none and back; what was stored stays.
    char *guard = mmap(0, 2 * PAGE, RW, PRIVATE, -1, 0);
    strcpy(guard, "zero");
    mprotect(guard, PAGE, PROT_READ);
    mprotect(guard, 2 * PAGE, PROT_NONE);
    mprotect(guard, 2 * PAGE, RW);
    int bad = strcmp(guard, "zero");
    // Thrown away: zeros again.
    madvise(guard + PAGE, PAGE, MADV_DONTNEED);
    bad += guard[PAGE] != 0;

    // The heap grows and shrinks.
    int *start = sbrk(64 * PAGE);
    for (int i = 0; i < 64; i++)
        start[i * 1024] = i;
    for (int i = 0; i < 64; i++)
        bad += start[i * 1024] != i;
    sbrk(-32 * PAGE);
    bad += start[31 * 1024] != 31;

    fprintf(stderr, "%ld %ld %ld %d %d %s %d\n", sum, moved, kept, fixed, views, guard, bad);
    return 0;
}
