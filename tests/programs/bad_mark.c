// A mark whose name can't be read, in a program that handles faults: memtap faults where it looks for the name, and no handler of the
// program's could go on from there.
#include <signal.h>
#include <unistd.h>
#include "memtap.h"

static void handled(int signal)
{
    _exit(signal);
}

int main(void)
{
    signal(SIGSEGV, handled);
    memtap_mark((const char *)8);
    return 0;
}
