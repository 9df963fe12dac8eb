// A forked child executes what the input names.
// command: taint
// input: /bin/true
// expect: system_call_memory
// memtap misses: a forked child starts untainted
#include <sys/wait.h>
#include <unistd.h>
#include "../hide.h"

int main(void)
{
    char line[64] = {0};
    if (read(0, line, 9) < 4)
        return 1;
    int status;
    if (fork() == 0) {
        execl(HIDE((char *)line), "true", (char *)NULL); // here
        _exit(1);
    }
    wait(&status);
    return status;
}
