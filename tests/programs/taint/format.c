// A line of input is given to printf as its format.
// build: -Wno-format-security
// stdin: %d of %d
// sink: format_string|main|read|0
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    char line[64] = {0};
    int bytes = read(0, line, sizeof line - 1); // SOURCE
    line[bytes] = 0;
    char out[128];
    snprintf(out, sizeof out, line, bytes, bytes); // SINK
    return out[0] != '0' + bytes;
}
