// A loop that OpenMP shares out, with a sum and a critical section.
// command: race
// expect: nothing
// builds: gcc-O1 gcc-O2
// flags: -fopenmp
#include "../hide.h"

static long numbers[200];

int main(void)
{
    long sum = 0, largest = 0;
#pragma omp parallel for num_threads(3) reduction(+ : sum)
    for (int i = 0; i < 200; i++) {
        *HIDE(&numbers[i]) = i * 7 % 13;
        sum += i;
#pragma omp critical
        *HIDE(&largest) = i > largest ? i : largest;
    }
    return sum + largest == 77;
}
