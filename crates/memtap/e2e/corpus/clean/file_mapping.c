// A file is mapped and searched to its last byte, which is the last one before the end of the mapping.
// command: errors
// expect: nothing
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "../hide.h"

int main(void)
{
    int file = memfd_create("text", 0);
    char line[64] = "a line of 64 bytes, which is written until there are 4096 of it";
    for (int i = 0; i < 64; i++)
        if (write(file, line, 64) != 64)
            return 1;
    char *text = HIDE((char *)mmap(0, 4096, PROT_READ, MAP_PRIVATE, file, 0));
    int lines = 0;
    for (char *at = text; (at = memchr(at, 0, text + 4096 - at)) != 0; at++)
        lines++;
    munmap(text, 4096);
    close(file);
    return lines == 77;
}
