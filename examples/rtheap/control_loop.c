/* A control loop that takes messages of any size from a queue, keeps some for a while, and may never wait for memory.
 *
 *     cc control_loop.c -lmemtap_rtheap -o control_loop
 *
 * The arena is as large as the heap's own bound says, so no allocation can fail, and the program checks that none does.
 */
#include <memtap_rtheap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES = 64, LARGEST = 4096, ROUNDS = 200000 };

struct message {
    size_t bytes;
    unsigned char *data;
};

static unsigned long long random_bits(void)
{
    static unsigned long long state = 88172645463325252ull;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void fail(const char *what)
{
    fprintf(stderr, "control_loop: %s\n", what);
    exit(1);
}

int main(void)
{
    uint64_t arena = memtap_rtheap_arena_bytes((uint64_t)MESSAGES * LARGEST, MESSAGES, LARGEST);
    memtap_rtheap *heap = memtap_rtheap_create(arena, MEMTAP_RTHEAP_PREFAULT);
    if (!heap)
        fail("no arena");

    static struct message queue[MESSAGES];
    unsigned long taken = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct message *message = &queue[random_bits() % MESSAGES];
        if (message->data) {
            for (size_t i = 0; i < message->bytes; i++)
                if (message->data[i] != (unsigned char)message->bytes)
                    fail("someone wrote into a message");
            if (memtap_rtheap_free(heap, message->data) != MEMTAP_RTHEAP_OK)
                fail("a message could not be freed");
            message->data = NULL;
            continue;
        }
        message->bytes = random_bits() % LARGEST + 1;
        message->data = memtap_rtheap_malloc(heap, message->bytes);
        if (!message->data)
            fail("the arena was said to be large enough");
        memset(message->data, (unsigned char)message->bytes, message->bytes);
        taken++;
    }
    for (int i = 0; i < MESSAGES; i++)
        memtap_rtheap_free(heap, queue[i].data);
    if (memtap_rtheap_check(heap) != MEMTAP_RTHEAP_OK)
        fail("the heap is not whole");
    memtap_rtheap_destroy(heap);
    printf("%lu messages, none waited for memory\n", taken);
    return 0;
}
