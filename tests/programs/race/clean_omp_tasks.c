// Tasks, and waiting for them.
// build: -fopenmp
#include <omp.h>

int cells[16];
int total;

int main(void)
{
    omp_set_dynamic(0);
    omp_set_num_threads(3);
#pragma omp parallel
#pragma omp single
    {
        for (int i = 0; i < 16; i++) {
#pragma omp task firstprivate(i)
            cells[i] = i;
        }
#pragma omp taskwait
        for (int i = 0; i < 16; i++)
            total += cells[i];
    }
    return total != 120;
}
