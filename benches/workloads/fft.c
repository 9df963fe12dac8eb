/* A recursive fast Fourier transform, forth and back, as in the paper's Table I ("runs on a small input vector"): each level
 * has its own two halves from malloc. Argument: base-2 logarithm of the points. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct point {
    double re, im;
};

static void transform(struct point *x, size_t n, double sign)
{
    if (n == 1)
        return;
    struct point *even = malloc(n / 2 * sizeof *even), *odd = malloc(n / 2 * sizeof *odd);
    if (!even || !odd)
        abort();
    for (size_t i = 0; i < n / 2; i++) {
        even[i] = x[2 * i];
        odd[i] = x[2 * i + 1];
    }
    transform(even, n / 2, sign);
    transform(odd, n / 2, sign);
    for (size_t i = 0; i < n / 2; i++) {
        double angle = sign * 2 * 3.14159265358979323846 * (double)i / (double)n;
        double c = cos(angle), s = sin(angle);
        struct point t = {c * odd[i].re - s * odd[i].im, s * odd[i].re + c * odd[i].im};
        x[i] = (struct point){even[i].re + t.re, even[i].im + t.im};
        x[i + n / 2] = (struct point){even[i].re - t.re, even[i].im - t.im};
    }
    free(even);
    free(odd);
}

int main(int argc, char **argv)
{
    size_t n = (size_t)1 << (argc > 1 ? atoi(argv[1]) : 10);
    struct point *x = calloc(n, sizeof *x);
    if (!x)
        abort();
    for (size_t i = 0; i < n; i++)
        x[i].re = (double)(i * 7 % 13);
    transform(x, n, -1);
    transform(x, n, 1);
    double worst = 0;
    for (size_t i = 0; i < n; i++)
        worst = fmax(worst, fabs(x[i].re / (double)n - (double)(i * 7 % 13)));
    puts(worst < 1e-9 ? "ok" : "wrong");
    free(x);
    return 0;
}
