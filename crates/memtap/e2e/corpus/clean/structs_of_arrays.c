// Structs with arrays in arrays of structs, on the stack and static.
// command: errors
// expect: nothing
#include "../hide.h"

struct cell {
    int values[3];
    char name[5];
};
struct board {
    struct cell cells[4][4];
    int used;
};

static struct board boards[2];

NOINLINE static int fill(struct board *board, int width)
{
    int all = 0;
    for (int y = 0; y < width; y++)
        for (int x = 0; x < width; x++) {
            struct cell *cell = HIDE(&board->cells[y][x]);
            for (int i = 0; i < 3; i++)
                cell->values[i] = x * y + i;
            for (int i = 0; i < 5; i++)
                cell->name[i] = 'a' + i;
            all += cell->values[2];
        }
    board->used = all;
    return all;
}

NOINLINE static int local(int width)
{
    struct board board = {0};
    int all = fill(&board, width);
    for (int i = 0; i < width; i++)
        all += ((volatile struct board *)&board)->cells[i][width - 1].values[i % 3];
    return all;
}

int main(void)
{
    return fill(&boards[HIDE(1)], HIDE(4)) + local(HIDE(4)) == 77;
}
