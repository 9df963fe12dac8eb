// fwrite from a variable, fread into another one; the second time there is less to read than is asked for.
// build: -fno-inline
// stdout: c
#include <stdio.h>
#include <stdlib.h>

char text[8] = "abcdefgh", taken[16] = " ";
static volatile unsigned long one = 1;

static void give(FILE *file)
{
    if (fwrite(text, one, 8, file) != 8)
        abort();
}

static void take(FILE *file, unsigned long count, unsigned long expected)
{
    if (fread(taken + 1, one, count, file) != expected)
        abort();
}

int main(void)
{
    FILE *file = tmpfile();
    give(file);
    rewind(file);
    take(file, 5, 5);
    fseek(file, 2, SEEK_SET);
    take(file, 9, 6);
    putchar(taken[1]);
    putchar('\n');
    return 0;
}
