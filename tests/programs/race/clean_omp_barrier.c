// Tasks that run at the barrier after a region's body: by threads that have left the body.
// build: -fopenmp
#include <omp.h>
#include <unistd.h>

int cells[16];
int total;

int main(void)
{
    omp_set_dynamic(0);
    omp_set_num_threads(3);
#pragma omp parallel
#pragma omp master
    {
        for (int i = 0; i < 16; i++) {
#pragma omp task firstprivate(i)
            cells[i] = i;
        }
        usleep(100000);
#pragma omp taskwait
        for (int i = 0; i < 16; i++)
            total += cells[i];
    }
    return total != 120;
}
