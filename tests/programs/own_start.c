// Begins at an entry point of its own, without the C library's start-up code, as Go's dynamic programs do.
// build: -nostartfiles
// lackey: no
#include <stdio.h>
#include <stdlib.h>

__attribute__((force_align_arg_pointer)) void _start(void)
{
    puts("began by itself");
    exit(0);
}
