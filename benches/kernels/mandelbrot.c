// Pure computation: everything stays in registers, one store a row.
// usage: mandelbrot ROWS
#include <stdlib.h>
#include "memtap.h"

static int inside[1 << 16];

int main(int count, char **arguments)
{
    long rows = count > 1 ? atol(arguments[1]) : 100;
    memtap_start();
    for (long row = 0; row < rows; row++) {
        int found = 0;
        for (int column = 0; column < 400; column++) {
            double cx = -2 + column * (3.0 / 400), cy = -1 + row * (2.0 / rows), x = 0, y = 0;
            int turn = 0;
            while (x * x + y * y < 4 && turn < 200) {
                double kept = x * x - y * y + cx;
                y = 2 * x * y + cy;
                x = kept;
                turn++;
            }
            found += turn == 200;
        }
        __asm__ volatile("movl %1, %0" : "=m"(inside[row & 65535]) : "r"(found));
    }
    memtap_stop();
    return 0;
}
