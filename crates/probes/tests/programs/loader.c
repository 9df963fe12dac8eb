// Loads PLUGIN, calls it while a thread runs, and unloads it, again and again; the first time long enough to be noticed.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static volatile int stop;

__attribute__((noipa)) void busy(void) { usleep(10); }

static void *run(void *argument) {
    while (!stop) busy();
    return argument;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, run, 0);
    for (int round = 0; round < 40; round++) {
        void *module = dlopen(PLUGIN, RTLD_NOW);
        if (!module) return 1;
        void (*plugged)(void) = (void (*)(void))dlsym(module, "plugged");
        for (int i = 0; i < (round == 0 ? 60 : 5); i++) {
            for (int j = 0; j < 20; j++) plugged();
            usleep(5000);
        }
        dlclose(module);
    }
    stop = 1;
    pthread_join(thread, 0);
    puts("done");
    return 0;
}
