// The paper's section IV: findDisparity on a 10 x 13 image.
// expect: <malloc@fMallocHandle> size=4 loads=520 stores=394
// expect: <malloc@iMallocHandle> size=4 loads=130 stores=132
// alloc: malloc=3
// stderr: 130
#include <stdio.h>
#include <stdlib.h>
#include "access.h"

typedef struct { int width, height; float data[]; } F2D;
typedef struct { int width, height; int data[]; } I2D;

F2D *fMallocHandle(int rows, int cols)
{
    F2D *out;
    int i = rows, j = cols;
    out = malloc(sizeof(F2D) + sizeof(float) * rows * cols);
    out->height = i;
    out->width = j;
    return out;
}

I2D *iMallocHandle(int rows, int cols)
{
    I2D *out;
    int i = rows, j = cols;
    out = malloc(sizeof(I2D) + sizeof(int) * rows * cols);
    out->height = i;
    out->width = j;
    return out;
}

void fill(F2D *a, float value, int n)
{
    for (int i = 0; i < n; i++)
        a->data[i] = value;
}

#define subsref(a, i, j) a->data[(i) * a->width + (j)]

void findDisparity(F2D *retSAD, F2D *minSAD, I2D *retDisp, int level, int nr, int nc)
{
    int i, j, a, b;
    for (i = 0; i < nr; i++) {
        for (j = 0; j < nc; j++) {
            a = subsref(retSAD, i, j);
            b = subsref(minSAD, i, j);
            if (a < b) {
                subsref(minSAD, i, j) = a;
                subsref(retDisp, i, j) = level;
            }
        }
    }
}

int main(void)
{
    F2D *minSAD = fMallocHandle(10, 13);
    I2D *retDisp = iMallocHandle(10, 13);
    F2D *retSAD = fMallocHandle(10, 13);
    fill(minSAD, 255, 130);
    fill(retSAD, 7, 130);
    findDisparity(retSAD, minSAD, retDisp, 0, 10, 13);
    fprintf(stderr, "%d\n", 130);
    return 0;
}
