// Every element of a local matrix, by one index over all rows.
// command: errors
// expect: nothing
#include "../hide.h"

NOINLINE static int fill(int rows, int columns)
{
    volatile int matrix[5][7];
    int all = 0;
    for (int y = 0; y < rows; y++)
        for (int x = 0; x < columns; x++)
            matrix[y][x] = x * y;
    for (int i = 0; i < rows * columns; i++)
        all += (&matrix[0][0])[i];
    return all;
}

int main(void)
{
    return fill(HIDE(5), HIDE(7)) == 77;
}
