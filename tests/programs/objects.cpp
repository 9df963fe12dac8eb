// C++ objects: every form of new and delete, fields, static members, namespaces.
// expect: geometry::Shape::alive size=4 loads=1 modifies=14
// expect: geometry::unit size=8 loads=6
// expect: <malloc@make_square> size=8 loads=10 stores=1
// expect: <malloc@make_array> size=4 stores=10
// expect: <malloc@make_aligned> size=8 stores=3
// expect: <malloc@make_nothrow> size=8 stores=4
// alloc: malloc=4 frees=4
// stderr: 30 0
#include <cstdio>
#include <new>
#include "access.h"

namespace geometry {
long unit = 3;

struct Shape {
    static int alive;
    Shape() { MODIFY("incl", alive); }
    ~Shape() { MODIFY("decl", alive); }
};
int Shape::alive;

struct Square : Shape {
    long side;
    long area() { return LOAD(side); }
};
}

struct alignas(128) Wide { long values[16]; };
#define FUNCTION __attribute__((noinline, noclone)) static

FUNCTION geometry::Square *make_square() { return new geometry::Square; }
FUNCTION int *make_array() { return new int[10]; }
FUNCTION Wide *make_aligned() { return new Wide; }
FUNCTION long *make_nothrow() { return new (std::nothrow) long[4]; }

int main()
{
    long sum = 0;
    for (int i = 0; i < 6; i++) {
        geometry::Square local;
        sum += LOAD(geometry::unit);
    }
    geometry::Square *square = make_square();
    STORE(square->side, 3);
    REPEAT(10) sum += square->area();
    int *array = make_array();
    REPEAT(10) STORE(array[i_], i_);
    Wide *wide = make_aligned();
    REPEAT(3) STORE(wide->values[i_], 1);
    long *plain = make_nothrow();
    REPEAT(4) STORE(plain[i_], 1);
    delete square;
    delete[] array;
    delete wide;
    delete[] plain;
    fprintf(stderr, "%ld %d\n", sum - 18, LOAD(geometry::Shape::alive));
    return 0;
}
