// Adds to two million ints (`touch`), sums them up (`read`), or adds to a few that lie on other pages (`others`); as often as
// the second argument says.
#include <stdio.h>
#include <stdlib.h>

static volatile int cells[2000000] __attribute__((aligned(4096)));
static volatile int others[4096] __attribute__((aligned(4096)));

int main(int argc, char **argv)
{
    char what = argc > 2 ? argv[1][0] : 't';
    int rounds = argc > 2 ? atoi(argv[2]) : 1, sum = 0;
    for (int round = 0; round < rounds; round++) {
        if (what == 'o')
            for (int i = 0; i < 4096; i++)
                others[i] += i;
        else if (what == 'r')
            for (int i = 0; i < 2000000; i++)
                sum += cells[i];
        else
            for (int i = 0; i < 2000000; i++)
                cells[i] += i;
    }
    printf("%d\n", sum + (what == 'o' ? others[7] : cells[7]));
    return 0;
}
