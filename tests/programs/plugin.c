// The library that dlopen.c loads.
// build: -shared -fPIC
// alone: no
#include <stdlib.h>
#include "access.h"

int plugin_data = 5;
long plugin_bss;

int *plugin_run(int turns)
{
    int *block = malloc(400);
    REPEAT(turns) {
        STORE(plugin_data, LOAD(plugin_data) + 1);
        STORE(plugin_bss, i_);
        STORE(block[i_], i_);
    }
    return block;
}
