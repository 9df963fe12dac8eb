// The input is a command of popen.
// command: taint
// input: true
// expect: system_call_memory
#include <stdio.h>
#include <unistd.h>
#include "../hide.h"

int main(void)
{
    char line[64] = {0};
    if (read(0, line, 60) < 4)
        return 1;
    FILE *stream = popen(HIDE((char *)line), "r"); // here
    return stream ? pclose(stream) : 1;
}
