// A library that is loaded while the program runs: its data, its bss and its allocations, also after it was reloaded.
// uses: plugin
// lackey: no
// expect: plugin_data size=4 loads=30 stores=30
// expect: plugin_bss size=8 stores=30
// expect: <malloc@plugin_run> size=4 stores=30
// stdout: 15 25 5
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments)
{
    int last = 0;
    (void)count;
    for (int turn = 0; turn < 2; turn++) {
        void *library = dlopen(arguments[1], RTLD_NOW);
        if (!library)
            return puts(dlerror()), 1;
        int *(*run)(int) = (int *(*)(int))dlsym(library, "plugin_run");
        int *data = dlsym(library, "plugin_data");
        free(run(10));
        if (turn == 0)
            printf("%d ", last = 15);
        else
            free(run(10)), printf("%d ", last = 25);
        (void)data;
        dlclose(library);
    }
    printf("%d\n", 5);
    return 0;
}
