// Functions of a library that is loaded while the program runs are called for the first time while another thread holds the loader's
// lock: who asks the loader for them waits for it in a call.
// uses: slow_plugin
// stdout: 4950
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static const char *plugin;

static void *load(void *unused)
{
    (void)unused;
    return dlopen(plugin, RTLD_NOW);
}

int main(int count, char **arguments)
{
    int ends[2];
    void *loaded;
    pthread_t loader;
    if (count != 2 || pipe(ends) != 0 || dup2(ends[0], 100) != 100) return 1;
    plugin = arguments[1];
    if (!dlopen("libstdc++.so.6", RTLD_NOW | RTLD_GLOBAL)) return 2;
    void *(*allocate)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "_Znwm");
    void (*release)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "_ZdlPv");
    if (!allocate || !release || pthread_create(&loader, 0, load, 0) != 0) return 3;
    if (write(ends[1], "x", 1) != 1) return 4;
    usleep(50000);
    long sum = 0;
    for (long turn = 0; turn < 100; turn++) {
        long *word = allocate(sizeof *word);
        *word = turn;
        sum += *word;
        release(word);
    }
    if (pthread_join(loader, &loaded) != 0 || !loaded) return 5;
    printf("%ld\n", sum);
    return 0;
}
