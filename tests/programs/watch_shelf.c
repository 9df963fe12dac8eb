// A library that another program is linked with.
// alone: no
// build: -shared -fPIC -fno-inline
#include <stdlib.h>

int shelf_books;
__thread int shelf_reader;

int *shelf_make(void)
{
    int *made = malloc(2 * sizeof *made);
    *(volatile int *)made = 1;
    return made;
}

int shelf_put(int books)
{
    *(volatile int *)&shelf_books += books;
    return shelf_books;
}
