// Forks and ends at once, so that its child may begin after it has ended. The child stores a thousand times and, with an argument, stays.
#include <unistd.h>

enum { STORES = 1000 };
volatile long cells[STORES];

int main(int argc, char **argv)
{
    (void)argv;
    if (fork() != 0)
        return 0;
    for (int i = 0; i < STORES; i++)
        cells[i] = i;
    if (argc > 1) {
        // Nobody waits for its output.
        close(1);
        close(2);
        sleep(20);
    }
    return 0;
}
