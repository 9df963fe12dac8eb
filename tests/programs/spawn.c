// posix_spawn, system and popen.
// lackey: no
// expect: counter size=4 loads=20 stores=20
// stdout: spawned
// stdout: through the shell
// stdout: read back: piped
// status: 3
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include "access.h"

extern char **environ;
int counter;
char line[64];
char *command[] = {"sh", "-c", "echo spawned; exit 3", 0};

int main(void)
{
    pid_t child;
    int status;
    REPEAT(10) STORE(counter, LOAD(counter) + 1);
    if (posix_spawnp(&child, "sh", 0, 0, command, environ))
        return 1;
    waitpid(child, &status, 0);
    REPEAT(10) STORE(counter, LOAD(counter) + 1);
    if (system("echo through the shell") != 0)
        return 1;
    FILE *pipe = popen("echo piped", "r");
    if (!pipe || !fgets(line, sizeof line, pipe) || pclose(pipe))
        return 1;
    printf("read back: %s", line);
    return WEXITSTATUS(status);
}
