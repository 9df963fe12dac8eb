// All memory is locked, now and later, where the user's limit allows it: nothing of the tracer's takes pages that it does not use.
// lackey: no
// stdout: locked, resident as natively to 128 MiB
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static long resident(void)
{
    long total = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &total, &pages) != 2)
        return -1;
    fclose(file);
    return pages * 4096;
}

int main(void)
{
    char *block;
    struct rlimit limit = {0};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0 && (geteuid() == 0 || limit.rlim_cur == RLIM_INFINITY))
        puts("not allowed");
    block = malloc(1 << 16);
    memset(block, 1, 1 << 16);
    if (resident() >= 0 && resident() < 128 << 20)
        puts("locked, resident as natively to 128 MiB");
    free(block);
    return 0;
}
