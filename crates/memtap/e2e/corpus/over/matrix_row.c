// Columns and rows are exchanged, so the last rows lie behind the block.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include "../hide.h"

NOINLINE static void put(float *matrix, int width, int x, int y)
{
    matrix[y * width + x] = 1; // here
}

int main(void)
{
    float *matrix = HIDE(malloc(4 * 3 * sizeof *matrix));
    for (int y = 0; y < HIDE(3); y++)
        for (int x = 0; x < HIDE(4); x++)
            put(matrix, HIDE(4), y, x);
    SHOW(matrix);
    free(matrix);
    return 0;
}
