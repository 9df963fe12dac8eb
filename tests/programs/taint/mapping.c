// A number of input is the length of a mapping.
// stdin: 8
// sink: system_call|main|read|0
#include <sys/mman.h>
#include <unistd.h>

int main(void)
{
    unsigned char digit;
    if (read(0, &digit, 1) != 1) // SOURCE
        return 1;
    char *block = mmap(0, (digit & 15) * 4096ul, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); // SINK
    return block == MAP_FAILED;
}
