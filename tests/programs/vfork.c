// vfork and exec: the child borrows the parent's memory until it starts another program.
// lackey: no
// expect: counter size=4 loads=22 stores=21
// stdout: hello from the child
// stdout: 31
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "access.h"

int counter = 10;
char *command[] = {"/bin/echo", "hello from the child", 0};

int main(void)
{
    REPEAT(10) STORE(counter, LOAD(counter) + 1);
    pid_t child = vfork();
    if (child == 0) {
        STORE(counter, LOAD(counter) + 1);
        execv(command[0], command);
        _exit(9);
    }
    int status;
    waitpid(child, &status, 0);
    REPEAT(10) STORE(counter, LOAD(counter) + 1);
    printf("%d\n", LOAD(counter));
    return WEXITSTATUS(status);
}
