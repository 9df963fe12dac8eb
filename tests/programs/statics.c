// Global, static, function-local static, field and element accesses; stack accesses are none.
// expect: initialised size=4 loads=11 stores=10
// expect: zeroed size=8 loads=20 stores=20
// expect: hidden size=2 stores=5
// expect: calls size=4 loads=30 stores=30
// expect: frame size=4 loads=11 stores=10
// expect: frame size=1 stores=30
// expect: frame size=8 loads=10
// expect: matrix size=8 loads=6 stores=12
// expect: constant size=4 loads=7
// stdout: 15 20 30 42
#include <stdio.h>
#include "access.h"

struct pixel { unsigned char red, green, blue; };
int initialised = 5;
long zeroed;
static short hidden = 1;
struct { int width; long height; struct pixel pixels[16]; } frame = {.height = 3};
double matrix[3][4];
int constant = 42;

__attribute__((noinline)) static int count(void)
{
    static int calls;
    STORE(calls, LOAD(calls) + 1);
    return 0;
}

int main(void)
{
    volatile long on_the_stack = 0;
    REPEAT(10) {
        STORE(initialised, LOAD(initialised) + 1);
        STORE(frame.width, LOAD(frame.width) + 2);
        LOAD(frame.height);
        STORE_BYTE(frame.pixels[3].red, 1);
        STORE_BYTE(frame.pixels[3].green, 1);
        STORE_BYTE(frame.pixels[i_].blue, 1);
    }
    REPEAT(20) {
        STORE(zeroed, LOAD(zeroed) + 1);
        on_the_stack += 2;
    }
    REPEAT(5) STORE(hidden, i_);
    REPEAT(29) count();
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++)
            STORE(*(long *)&matrix[i][j], i + j);
    for (int i = 0; i < 3; i++)
        LOAD(*(long *)&matrix[i][i]), LOAD(*(long *)&matrix[i][i + 1]);
    int same = 0;
    REPEAT(7) same = LOAD(*(int *)&constant);
    count();
    printf("%d %d %d %d\n", LOAD(initialised), LOAD(frame.width), 30, same);
    return on_the_stack != 40;
}
