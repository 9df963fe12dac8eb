// A column that is one too far, which is the first of the next row, and of the last row behind the matrix.
// command: errors
// expect: out_of_bounds
#include "../hide.h"

static volatile int matrix[3][4];

NOINLINE static void set(int y, int x, int value)
{
    matrix[y][x] = value; // here
}

int main(void)
{
    for (int y = 0; y < 3; y++)
        for (int x = 0; x <= HIDE(4); x++)
            set(y, x, x);
    return matrix[1][2] == 77;
}
