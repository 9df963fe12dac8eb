// Other programs are started by posix_spawn, popen and vfork, with arguments on the heap.
// command: errors
// record: --no-children
// expect: nothing
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../hide.h"

extern char **environ;

int main(void)
{
    char **arguments = HIDE(calloc(3, sizeof *arguments));
    arguments[0] = strdup("true");
    arguments[1] = strdup("and an argument of some length");
    pid_t child;
    int status;
    if (posix_spawnp(&child, "true", NULL, NULL, arguments, environ) != 0 || waitpid(child, &status, 0) != child)
        return 1;
    child = vfork();
    if (child == 0) {
        execvp("true", arguments);
        _exit(1);
    }
    waitpid(child, &status, 0);
    free(arguments[0]);
    free(arguments[1]);
    free(arguments);
    FILE *stream = popen("echo text", "r");
    char line[40];
    char *got = fgets(line, sizeof line, stream);
    pclose(stream);
    return got == NULL;
}
