// OpenMP: a team of threads that live on, loops that are shared out, a reduction, a critical section.
// build: -fopenmp
// lackey: no
// stat: threads=4
// expect: cells size=8 loads=1000 stores=1000
// expect: entered size=4 loads=1 modifies=4
// stdout: 499500 4
#include <omp.h>
#include <stdio.h>
#include "access.h"

long cells[1000];
int entered;

int main(void)
{
    long sum = 0;
    omp_set_dynamic(0);
    omp_set_num_threads(4);
#pragma omp parallel
    {
#pragma omp critical
        MODIFY("incl", entered);
#pragma omp for schedule(dynamic, 10)
        for (long i = 0; i < 1000; i++)
            STORE(cells[i], i);
#pragma omp for reduction(+ : sum)
        for (long i = 0; i < 1000; i++)
            sum += LOAD(cells[i]);
    }
    printf("%ld %d\n", sum, LOAD(entered));
    return 0;
}
