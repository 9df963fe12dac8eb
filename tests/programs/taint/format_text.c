// A line of input without a directive is given to printf as its format.
// build: -Wno-format-security
// stdin: seven of nine
// stdout: seven of nine
// sink: format_string|main|read|13
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    char line[64] = {0};
    if (read(0, line, sizeof line - 1) < 1) // SOURCE
        return 1;
    printf(line); // SINK
    return 0;
}
