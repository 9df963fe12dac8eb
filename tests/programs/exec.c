// A program that replaces itself, with and without fork: each image is a process of its own in the trace.
// lackey: no
// expect: counter size=4 loads=33 stores=30
// stdout: turn 0 10
// stdout: turn 1 10
// stdout: turn 2 10
// status: 5
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "access.h"

int counter;

int main(int count, char **arguments)
{
    int turn = count > 1 ? atoi(arguments[1]) : 0;
    char next[2] = {'1' + turn, 0};
    REPEAT(10) STORE(counter, LOAD(counter) + 1);
    printf("turn %d %d\n", turn, LOAD(counter));
    fflush(stdout);
    if (turn == 2)
        return 5;
    execl("/proc/self/exe", arguments[0], next, (char *)0);
    return 1;
}
