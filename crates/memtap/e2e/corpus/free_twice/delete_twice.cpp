// Deletes an object twice.
// command: errors
// expect: invalid_free
#include "../hide.h"

struct point {
    double x, y;
};

int main()
{
    point *p = HIDE(new point{1, 2});
    delete p;
    p = HIDE(p);
    delete p; // here
    return 0;
}
