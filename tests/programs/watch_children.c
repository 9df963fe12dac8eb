// A variable that a forked child writes, then the same program again in its place, then a program that has none.
// stdout: 4
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

volatile int counter;

int main(int argc, char **argv)
{
    if (argc > 1) {
        counter = 3;
        return 0;
    }
    counter = 1;
    if (fork() == 0) {
        counter = 2;
        execl(argv[0], argv[0], "again", (char *)0);
        _exit(1);
    }
    wait(0);
    if (fork() == 0) {
        execl("/bin/true", "true", (char *)0);
        _exit(1);
    }
    wait(0);
    counter = 4;
    printf("%d\n", counter);
    return 0;
}
