// Loops shared out, a reduction, a critical section, an atomic update.
// build: -fopenmp
#include <omp.h>

int squares[64], reversed[64];
long counted, marked;

int main(void)
{
    long sum = 0;
    omp_set_dynamic(0);
    omp_set_num_threads(3);
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int i = 0; i < 64; i++)
            squares[i] = i * i;
#pragma omp for schedule(dynamic, 4)
        for (int i = 0; i < 64; i++)
            reversed[i] = squares[63 - i];
#pragma omp critical
        counted++;
#pragma omp atomic
        marked++;
    }
#pragma omp parallel for reduction(+ : sum) schedule(guided)
    for (int i = 0; i < 64; i++)
        sum += reversed[i] - squares[63 - i];
    return sum != 0 || counted != 3 || marked != 3;
}
