/* A program that reads a block after its release, for `memtap errors`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct message {
    char text[24];
};

static int show(const struct message *message)
{
    return message->text[0];
}

int main(void)
{
    struct message *message = malloc(sizeof *message);
    strcpy(message->text, "hello");
    free(message);
    volatile int first = show(message); /* too late */
    (void)first; /* whatever the allocator has put there */
    return 0;
}
