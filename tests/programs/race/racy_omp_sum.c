// A sum without a reduction.
// build: -fopenmp
// race: sum
#include <omp.h>

long sum;

int main(void)
{
    omp_set_dynamic(0);
    omp_set_num_threads(3);
#pragma omp parallel for
    for (long i = 0; i < 30; i++)
        *(volatile long *)&sum += i; // RACE
    return 0;
}
