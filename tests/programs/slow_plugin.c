// A library whose constructor holds the loader's lock: it waits for a byte, and a while longer.
// build: -shared -fPIC
// alone: no
#include <time.h>
#include <unistd.h>

__attribute__((constructor)) static void begin(void)
{
    char byte;
    if (read(100, &byte, 1) != 1) return;
    struct timespec while_longer = {0, 200000000};
    nanosleep(&while_longer, 0);
}
