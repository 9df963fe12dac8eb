// fork: the child is a process of its own in the same trace; memory is private in both directions in every region.
// lackey: no
// expect: counter size=4 loads=62 stores=60
// expect: <malloc@block> size=4 loads=4 stores=3
// stat: threads=3
// stdout: child 30 7 8 9
// stdout: parent 40 5 5 5
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "access.h"

int counter = 10;
int in_data = 5;
__attribute__((noinline, noclone)) static int *block(void) { return malloc(64); }

int main(void)
{
    int *heap = block(), *mapped = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    STORE(*heap, 5);
    *mapped = 5;
    REPEAT(10) STORE(counter, LOAD(counter) + 1);
    pid_t child = fork();
    if (child == 0) {
        REPEAT(10) STORE(counter, LOAD(counter) + 1);
        in_data = 7;
        STORE(*heap, 8);
        *mapped = 9;
        *shared = 1;
        // A grandchild that sees the child's values.
        pid_t grandchild = fork();
        if (grandchild == 0) {
            REPEAT(20) STORE(counter, LOAD(counter) + 1);
            STORE(*heap, LOAD(*heap) + 1);
            _exit(LOAD(*heap) == 9 && in_data == 7 ? 3 : 4);
        }
        int status;
        waitpid(grandchild, &status, 0);
        printf("child %d %d %d %d\n", LOAD(counter), in_data, LOAD(*heap), *mapped);
        fflush(stdout);
        _exit(WEXITSTATUS(status) == 3 ? 3 : 4);
    }
    REPEAT(20) STORE(counter, LOAD(counter) + 1);
    int status;
    waitpid(child, &status, 0);
    printf("parent %d %d %d %d\n", LOAD(counter), in_data, LOAD(*heap), *mapped);
    return WEXITSTATUS(status) != 3 || *shared != 1;
}
