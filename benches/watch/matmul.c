// Matrix multiplication by rows.
#include "team.h"

static long n;
static double *a, *b, *c;

static void multiply(int member)
{
    for (long i = first_of(member, n); i < first_of(member + 1, n); i++)
        for (long j = 0; j < n; j++) {
            double sum = 0;
            for (long k = 0; k < n; k++)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
}

int main(int argc, char **argv)
{
    n = size_of_run(argc, argv, 100);
    a = malloc(n * n * sizeof *a), b = malloc(n * n * sizeof *b), c = malloc(n * n * sizeof *c);
    for (long i = 0; i < n * n; i++)
        a[i] = i % 7, b[i] = i % 5;
    team(multiply);
    printf("%.0f\n", c[n * n - 1]);
    return 0;
}
