// Five system calls by the gate of 32-bit programs: each is made, and told as a gap with its cause.
// translate: only
// lackey: no
// stdout: 5 of 5
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    int right = 0;
    for (int i = 0; i < 5; i++) {
        long pid;
        __asm__ volatile("int $0x80" : "=a"(pid) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
        right += pid == getpid();
    }
    printf("%d of 5\n", right);
    return 0;
}
