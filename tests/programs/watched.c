// What `memtap watch` is asked about: a variable, a field, the second block of a function, and a string.
// build: -pthread -fno-inline
// stdout: 47 8
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct point {
    int x, y;
};
struct point points[4];
volatile int counter;
long others[1000];
char text[16];
static volatile unsigned long bytes = 6;

static int *make(int n)
{
    volatile int *cells = malloc(n * sizeof *cells);
    for (int i = 0; i < n; i++)
        cells[i] = i + 1;
    return (int *)cells;
}

static void *work(void *unused)
{
    points[2].y += 5;
    counter += 5;
    return unused;
}

int main(void)
{
    pthread_t thread;
    counter = 42;
    points[2].x = 9;
    points[2].y = 3;
    for (int i = 0; i < 1000; i++)
        others[i] = i;
    int *first = make(3), *second = make(2);
    first[0] = 5;
    second[1] = 99;
    memcpy(text, "hello", bytes);
    pthread_create(&thread, 0, work, 0);
    pthread_join(thread, 0);
    printf("%d %d\n", counter, points[2].y);
    free(first);
    free(second);
    return 0;
}
