// Loads PLUGIN, calls it while a thread runs, and unloads it, again and again. The first and the last time it stays longer:
// with CHANGES, until its code was seen changed by a probe.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 40, CODE_BYTES = 32 };

static volatile int stop;

__attribute__((noipa)) void busy(void) { usleep(10); }

static void *run(void *argument) {
    while (!stop) busy();
    return argument;
}

int main(void) {
    static char code[CODE_BYTES];
    pthread_t thread;
    pthread_create(&thread, 0, run, 0);
    for (int round = 0; round < ROUNDS; round++) {
        void *module = dlopen(PLUGIN, RTLD_NOW);
        if (!module) return 1;
        void (*plugged)(void) = (void (*)(void))dlsym(module, "plugged");
        int stays = round == 0 || round == ROUNDS - 1, changed = 0;
        if (round == 0) memcpy(code, (void *)plugged, CODE_BYTES);
        int turns = !stays ? 5 : CHANGES ? 4000 : 60;
        for (int i = 0; i < turns && !changed; i++) {
            changed = stays && CHANGES && memcmp(code, (void *)plugged, CODE_BYTES) != 0;
            for (int j = 0; j < 20; j++) plugged();
            usleep(5000);
        }
        if (stays && CHANGES && !changed) return 2;
        dlclose(module);
    }
    stop = 1;
    pthread_join(thread, 0);
    puts("done");
    return 0;
}
