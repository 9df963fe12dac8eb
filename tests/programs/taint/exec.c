// A line of input is an argument of a program that is executed.
// stdin: seven
// stdout: seven
// sink: system_call_memory|main|read|0
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(void)
{
    char line[64] = {0};
    int status, bytes = read(0, line, sizeof line); // SOURCE
    if (bytes < 1)
        return 1;
    line[bytes - 1] = 0;
    char *arguments[] = {"echo", line, 0};
    pid_t child;
    if (posix_spawn(&child, "/bin/echo", 0, 0, arguments, environ)) // SINK
        return 1;
    waitpid(child, &status, 0);
    return status != 0;
}
