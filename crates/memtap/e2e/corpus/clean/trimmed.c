// The heap shrinks when its end is released, and grows again.
// command: errors
// expect: nothing
#include <malloc.h>
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    for (int turn = 0; turn < 3; turn++) {
        char *blocks[20];
        for (int i = 0; i < 20; i++) {
            blocks[i] = HIDE(malloc(60000));
            blocks[i][59999] = 1;
        }
        for (int i = 0; i < 20; i++)
            free(blocks[i]);
        malloc_trim(0);
    }
    return 0;
}
