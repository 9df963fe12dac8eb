// A length that was read from a file says how much write writes.
// stdin: 4abc
// stdout: abc
// sink: system_call|main|read|0
#include <unistd.h>

int main(void)
{
    char input[16];
    if (read(0, input, 5) != 5) // SOURCE
        return 1;
    unsigned length = input[0] & 7;
    return write(1, input + 1, length) != (int)length; // SINK
}
