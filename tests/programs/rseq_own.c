// A program that registers an area of restartable sequences itself is told what the kernel says where the C library has one already.
// lackey: no
// stdout: other -22, length -22, flags -22, signature -1, again -16, aligned -22, unregistered 0, twice -22
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct rseq own;

static int rseq(void *area, unsigned len, int flags, unsigned signature)
{
    return syscall(SYS_rseq, area, len, flags, signature) ? -errno : 0;
}

static void *ask(void *tell)
{
    unsigned len = 32;
    void *area = (char *)__builtin_thread_pointer() + __rseq_offset;
    int other = rseq(&own, 32, 0, RSEQ_SIG), length = rseq(area, 1024, 0, RSEQ_SIG), flags = rseq(area, len, 2, RSEQ_SIG);
    int signature = rseq(area, len, 0, 1), again = rseq(area, len, 0, RSEQ_SIG), aligned = rseq((char *)&own + 4, 32, 0, RSEQ_SIG);
    int unregistered = rseq(area, len, RSEQ_FLAG_UNREGISTER, RSEQ_SIG), twice = rseq(area, len, RSEQ_FLAG_UNREGISTER, RSEQ_SIG);
    if (tell)
        printf("other %d, length %d, flags %d, signature %d, again %d, aligned %d, unregistered %d, twice %d\n", other, length,
               flags, signature, again, aligned, unregistered, twice);
    return 0;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, ask, 0);
    pthread_join(thread, 0);
    ask("");
    return 0;
}
