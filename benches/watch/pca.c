// Means and covariances of the rows of a matrix.
#include "team.h"

static long rows, columns;
static int *matrix;
static long *mean, *covariance;

static void means(int member)
{
    for (long i = first_of(member, rows); i < first_of(member + 1, rows); i++) {
        long sum = 0;
        for (long j = 0; j < columns; j++)
            sum += matrix[i * columns + j];
        mean[i] = sum / columns;
    }
}

static void covariances(int member)
{
    for (long i = member; i < rows; i += MEMBERS)
        for (long k = i; k < rows; k++) {
            long sum = 0;
            for (long j = 0; j < columns; j++)
                sum += (matrix[i * columns + j] - mean[i]) * (matrix[k * columns + j] - mean[k]);
            covariance[i * rows + k] = covariance[k * rows + i] = sum / (columns - 1);
        }
}

int main(int argc, char **argv)
{
    rows = size_of_run(argc, argv, 90), columns = 100;
    matrix = malloc(rows * columns * sizeof *matrix);
    mean = malloc(rows * sizeof *mean), covariance = malloc(rows * rows * sizeof *covariance);
    unsigned random = 5;
    for (long i = 0; i < rows * columns; i++)
        matrix[i] = next_random(&random) % 100;
    team(means);
    team(covariances);
    printf("%ld\n", covariance[0]);
    return 0;
}
