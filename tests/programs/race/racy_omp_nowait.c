// The next loop begins before the first one is done.
// build: -fopenmp
// race: squares
#include <omp.h>

int squares[64];
int reversed[64];

int main(void)
{
    omp_set_dynamic(0);
    omp_set_num_threads(2);
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (int i = 0; i < 64; i++)
            squares[i] = i * i; // RACE
#pragma omp for schedule(static)
        for (int i = 0; i < 64; i++)
            reversed[i] = squares[63 - i]; // RACE
    }
    return 0;
}
