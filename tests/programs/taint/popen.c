// A line of input is a part of a command whose output is read.
// stdin: seven
// stdout: seven
// sink: system_call_memory|main|read|0
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
    char line[32] = {0}, command[64] = "echo ", answer[32] = {0};
    if (read(0, line, sizeof line - 1) < 1) // SOURCE
        return 1;
    strcat(command, line);
    FILE *output = popen(command, "r"); // SINK
    if (!output || !fgets(answer, sizeof answer, output))
        return 1;
    fputs(answer, stdout);
    return pclose(output);
}
