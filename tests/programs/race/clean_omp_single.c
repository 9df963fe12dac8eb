// One thread writes, a barrier, all read; a lock; an ordered loop; sections.
// build: -fopenmp
#include <omp.h>

int shared_value, entered, order_sum;
int left, right;
static omp_lock_t lock;

int main(void)
{
    omp_set_dynamic(0);
    omp_set_num_threads(3);
    omp_init_lock(&lock);
#pragma omp parallel
    {
#pragma omp single
        shared_value = 5;
        omp_set_lock(&lock);
        entered += shared_value;
        omp_unset_lock(&lock);
#pragma omp barrier
#pragma omp master
        shared_value = entered;
#pragma omp barrier
#pragma omp for ordered schedule(static, 1)
        for (int i = 0; i < 6; i++) {
#pragma omp ordered
            order_sum = order_sum * 2 + (shared_value == 15);
        }
#pragma omp sections
        {
#pragma omp section
            left = shared_value;
#pragma omp section
            right = entered;
        }
    }
    omp_destroy_lock(&lock);
    return order_sum != 63 || left != right;
}
