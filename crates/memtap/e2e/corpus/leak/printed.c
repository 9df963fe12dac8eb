// A program that prints: the buffer of standard output is never released, and is no leak.
// command: errors
// record: --data
// expect: nothing
#include <stdio.h>

int main(void)
{
    for (int i = 0; i < 10; i++)
        printf("line %d\n", i);
    return 0;
}
