// Loops that miss: a matrix by columns, a matrix product, a table that is hit at random, a list in an order that is mixed.
// stdout: 4.0704e+06 -1.33792e+06 0 41932800
#include <stdio.h>

#define N 160
static double a[N][N], b[N][N], c[N][N];
static unsigned char histogram[1 << 18];
struct node { struct node *next; long weight; char name[48]; };
static struct node nodes[4096];

static double columns(void)
{
    double sum = 0;
    for (int x = 0; x < N; x++)
        for (int y = 0; y < N; y++)
            sum += a[y][x];
    return sum;
}

static void product(void)
{
    for (int y = 0; y < N; y++)
        for (int x = 0; x < N; x++) {
            double sum = 0;
            for (int k = 0; k < N; k++)
                sum += a[y][k] * b[k][x];
            c[y][x] = sum;
        }
}

static void count(void)
{
    unsigned seed = 1;
    for (int i = 0; i < 40000; i++) {
        seed = seed * 1103515245 + 12345;
        histogram[seed >> 14]++;
    }
}

static long walk(int times)
{
    long sum = 0;
    while (times--)
        for (struct node *node = nodes; node; node = node->next)
            sum += node->weight;
    return sum;
}

int main(void)
{
    for (int y = 0; y < N; y++)
        for (int x = 0; x < N; x++) {
            a[y][x] = x + y;
            b[y][x] = x - y;
        }
    for (int i = 0; i < 4096; i++) {
        nodes[(long)i * 1231 % 4096].weight = i;
        nodes[(long)i * 1231 % 4096].next = i == 4095 ? 0 : &nodes[(i + 1L) * 1231 % 4096];
    }
    double sum = columns();
    product();
    count();
    long weight = walk(5);
    printf("%g %g %d %ld\n", sum, c[3][4], histogram[77], weight);
    return 0;
}
