// A pipe hands a slot to another thread, another one hands it back; a duplicate of an end is that end. At last the end of the one is
// seen where nothing was written.
// build: -pthread
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

static int there[2], back[2], moved[2];
static char letter;
int slot, sum, last, spliced;

static void *giver(void *unused)
{
    char byte = 0;
    int end = dup(there[1]);
    for (int i = 0; i < 10; i++) {
        slot = i;
        letter = 'a';
        struct iovec vector = {&letter, 1};
        if (i % 2 ? write(end, &letter, 1) != 1 : writev(there[1], &vector, 1) != 1)
            return 0;
        if (read(back[0], &byte, 1) != 1)
            return 0;
    }
    spliced = 7;
    if (write(moved[1], &byte, 1) != 1)
        return 0;
    last = 1;
    close(end);
    close(there[1]);
    return unused;
}

static void *taker(void *unused)
{
    char bytes[4];
    // Through the C library's own buffer.
    FILE *file = fdopen(there[0], "r");
    for (int i = 0; i < 10; i++) {
        if (fread(bytes, 1, 1, file) != 1)
            return 0;
        sum += slot;
        // What the kernel has read for the pipe may be overwritten.
        letter = bytes[0] + 1;
        if (write(back[1], bytes, 1) != 1)
            return 0;
    }
    if (splice(moved[0], 0, back[1], 0, 1, 0) != 1)
        return 0;
    sum += spliced;
    if (fread(bytes, 1, 1, file) != 0)
        return 0;
    sum += last;
    return unused;
}

int main(void)
{
    pthread_t a, b;
    if (pipe(there) || pipe2(back, O_CLOEXEC) || pipe(moved))
        return 1;
    pthread_create(&a, 0, giver, 0);
    pthread_create(&b, 0, taker, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return sum != 53;
}
