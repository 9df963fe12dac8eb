// Writes a variable, waits for a byte, and writes it again.
// stdout: 2
#include <stdio.h>
#include <unistd.h>

volatile int counter;

int main(void)
{
    char byte;
    counter = 1;
    if (read(0, &byte, 1) < 0)
        return 1;
    counter = 2;
    printf("%d\n", counter);
    return 0;
}
