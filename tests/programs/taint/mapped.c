// A mapped file chooses a function: the byte is data of the address, not only an index.
// build: -fno-inline
// stdout: one
// sink: jump|main|mmap|0
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void one(void)
{
    puts("one");
}

int main(void)
{
    char name[] = "/tmp/memtap-mapped-XXXXXX";
    int file = mkstemp(name);
    uint32_t address = (uint32_t)(uintptr_t)one;
    if (write(file, &address, sizeof address) != sizeof address || unlink(name))
        return 1;
    const volatile uint32_t *mapped = mmap(0, 4096, PROT_READ, MAP_PRIVATE, file, 0);
    void (*chosen)(void) = (void (*)(void))(uintptr_t)*mapped;
    chosen(); // SINK
    return 0;
}
