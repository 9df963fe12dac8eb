// Output on both channels, arguments, environment, standard input, an exit status of its own.
// args: one two
// stdin: some input
// stdout: 3 one two some input
// stderr: words on standard error
// status: 42
#include <stdio.h>

int main(int count, char **arguments)
{
    char line[64];
    if (!fgets(line, sizeof line, stdin))
        return 1;
    printf("%d %s %s %s", count, arguments[1], arguments[2], line);
    fprintf(stderr, "words on standard error\n");
    return 42;
}
