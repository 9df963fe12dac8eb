// Input is looked at, and commands, sizes and names are the program's own.
// stdin: 8 seven
// stdout: eight
// stdout: eight
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(void)
{
    char line[64] = {0}, answer[32] = {0};
    int bytes = read(0, line, sizeof line - 1), status;
    if (bytes < 1)
        return 1;
    // How long a line is, is not what it says.
    char *copy = malloc(strlen(line) + 1), *more = calloc(bytes, 2);
    strcpy(copy, line);
    memcpy(more, line, bytes);
    void *mapping = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    strcpy(mapping, line);
    int digit = line[0] == '8' && getenv("PATH")[0] == '/';
    char *arguments[] = {"echo", digit ? "eight" : "other", 0};
    pid_t child;
    if (posix_spawn(&child, "/bin/echo", 0, 0, arguments, environ))
        return 1;
    waitpid(child, &status, 0);
    FILE *output = popen("echo eight", "r");
    if (!output || !fgets(answer, sizeof answer, output))
        return 1;
    fputs(answer, stdout);
    free(copy);
    free(more);
    return pclose(output) || system("true") || open("/dev/null", O_RDONLY) < 0;
}
