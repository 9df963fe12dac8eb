/* Runs in the guest of the tests of whole machines, twice: a program that can be moved, so that its code lies at another address each
   time, and its child, which makes accesses before it runs anything else. Built with -static-pie. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define CELLS 1024
/* An odd number, and so many that interrupts come meanwhile. */
#define ROUNDS 33

static unsigned cells[CELLS];

__attribute__((noinline)) static void fill(unsigned seed)
{
    for (unsigned round = 0; round < ROUNDS; round++)
        for (unsigned i = 0; i < CELLS; i++)
            cells[i] ^= seed * i;
}

__attribute__((noinline)) static void fill_in_child(void)
{
    fill(3);
}

int main(void)
{
    fill(2);
    if (fork() == 0) {
        fill_in_child();
        return cells[1] == 0;
    }
    int status;
    wait(&status);
    printf("moved %d %u\n", status, cells[1]);
    return 0;
}
