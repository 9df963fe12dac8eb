// Critical sections of different names exclude nobody.
// build: -fopenmp
// race: total
#include <omp.h>

int total;

int main(void)
{
    omp_set_dynamic(0);
    omp_set_num_threads(2);
#pragma omp parallel
    {
        if (omp_get_thread_num() == 0) {
#pragma omp critical(first)
            total += 1; // RACE
        } else {
#pragma omp critical(second)
            total += 2; // RACE
        }
    }
    return 0;
}
