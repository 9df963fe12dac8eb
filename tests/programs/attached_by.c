// Attaches to a process as a debugger does, until standard input ends.
// alone: no
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char byte;
    if (argc < 2 || ptrace(PTRACE_SEIZE, atoi(argv[1]), NULL, NULL) != 0) {
        perror("ptrace");
        return 1;
    }
    puts("ready");
    fflush(stdout);
    return read(0, &byte, 1) != 0;
}
