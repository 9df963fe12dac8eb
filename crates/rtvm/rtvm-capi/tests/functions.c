/* Every function of memtap_rtheap.h, right and wrong uses. */
#include <memtap_rtheap.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(what)                                                       \
    do {                                                                  \
        if (!(what)) {                                                    \
            fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #what); \
            exit(1);                                                      \
        }                                                                 \
    } while (0)

/* Pages of the program that are resident. */
static long resident(void)
{
    long size = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld %ld", &size, &pages) == 2);
    fclose(file);
    return pages;
}

static void *many(void *heap)
{
    void *blocks[50] = {0};
    for (int round = 0; round < 5000; round++) {
        int which = (round * 7) % 50;
        CHECK(memtap_rtheap_free(heap, blocks[which]) == MEMTAP_RTHEAP_OK);
        size_t bytes = (size_t)round * 37 % 20000 + 1;
        blocks[which] = memtap_rtheap_malloc(heap, bytes);
        CHECK(blocks[which]);
        memset(blocks[which], which, bytes);
    }
    for (int i = 0; i < 50; i++)
        CHECK(memtap_rtheap_free(heap, blocks[i]) == MEMTAP_RTHEAP_OK);
    return NULL;
}

static void blocks(memtap_rtheap *heap)
{
    char *a = memtap_rtheap_malloc(heap, 1000);
    CHECK(a && (uintptr_t)a % 16 == 0 && memtap_rtheap_usable_size(heap, a) >= 1000);
    memset(a, 'a', 1000);
    char *b = memtap_rtheap_memalign(heap, 65536, 10);
    CHECK(b && (uintptr_t)b % 65536 == 0);
    char *c = memtap_rtheap_calloc(heap, 100, 10);
    CHECK(c);
    for (int i = 0; i < 1000; i++)
        CHECK(c[i] == 0);
    a = memtap_rtheap_realloc(heap, a, 100000);
    CHECK(a && a[0] == 'a' && a[999] == 'a');
    char *d = memtap_rtheap_realloc(heap, NULL, 5);
    CHECK(d);
    /* What must not work, and must change nothing. */
    CHECK(!memtap_rtheap_malloc(heap, (size_t)1 << 60));
    CHECK(!memtap_rtheap_calloc(heap, (size_t)1 << 40, (size_t)1 << 40));
    CHECK(!memtap_rtheap_memalign(heap, 48, 10));
    CHECK(!memtap_rtheap_realloc(heap, a, (size_t)1 << 60) && a[999] == 'a');
    CHECK(memtap_rtheap_free(heap, a + 16) == MEMTAP_RTHEAP_NOT_A_BLOCK);
    CHECK(memtap_rtheap_free(heap, &heap) == MEMTAP_RTHEAP_NOT_A_BLOCK);
    CHECK(memtap_rtheap_free(heap, NULL) == MEMTAP_RTHEAP_OK);
    CHECK(memtap_rtheap_usable_size(heap, &heap) == 0);
    CHECK(memtap_rtheap_check(heap) == MEMTAP_RTHEAP_OK);
    CHECK(memtap_rtheap_free(heap, c) == MEMTAP_RTHEAP_OK);
    CHECK(memtap_rtheap_free(heap, c) != MEMTAP_RTHEAP_OK);
    CHECK(memtap_rtheap_free(heap, a) == MEMTAP_RTHEAP_OK);
    CHECK(memtap_rtheap_free(heap, b) == MEMTAP_RTHEAP_OK);
    CHECK(memtap_rtheap_free(heap, d) == MEMTAP_RTHEAP_OK);
    CHECK(memtap_rtheap_check(heap) == MEMTAP_RTHEAP_OK);
}

static void pages_go_back(uint32_t flags)
{
    memtap_rtheap *heap = memtap_rtheap_create((size_t)1 << 30, flags);
    CHECK(heap);
    long before = resident();
    size_t bytes = 64 << 20;
    char *block = memtap_rtheap_malloc(heap, bytes);
    CHECK(block);
    memset(block, 1, bytes);
    CHECK(resident() - before >= 16000);
    CHECK(memtap_rtheap_free(heap, block) == MEMTAP_RTHEAP_OK);
    if (flags & MEMTAP_RTHEAP_HELPER) {
        /* However slow the machine is; a test that hangs is a test that fails. */
        while (memtap_rtheap_returned_bytes(heap) < bytes - bytes / 128)
            usleep(1000);
    } else {
        CHECK(memtap_rtheap_returned_bytes(heap) == 0);
        memtap_rtheap_trim(heap);
        CHECK(memtap_rtheap_returned_bytes(heap) >= bytes - bytes / 128);
    }
    CHECK(resident() - before < 1000);
    CHECK(memtap_rtheap_check(heap) == MEMTAP_RTHEAP_OK);
    memtap_rtheap_destroy(heap);
}

int main(void)
{
    CHECK(!memtap_rtheap_create(0, 0));
    CHECK(!memtap_rtheap_create((size_t)-1, 0));
    CHECK(!memtap_rtheap_malloc(NULL, 1));
    CHECK(memtap_rtheap_free(NULL, NULL) == MEMTAP_RTHEAP_INVALID);
    CHECK(memtap_rtheap_arena_bytes(UINT64_MAX, 1, 1) == 0);
    memtap_rtheap_destroy(NULL);

    uint32_t flags[] = {0, MEMTAP_RTHEAP_PREFAULT, MEMTAP_RTHEAP_HELPER};
    for (int i = 0; i < 3; i++) {
        memtap_rtheap *heap = memtap_rtheap_create(16 << 20, flags[i]);
        CHECK(heap);
        blocks(heap);
        pthread_t threads[3];
        for (int t = 0; t < 3; t++)
            CHECK(pthread_create(&threads[t], NULL, many, heap) == 0);
        for (int t = 0; t < 3; t++)
            pthread_join(threads[t], NULL);
        CHECK(memtap_rtheap_check(heap) == MEMTAP_RTHEAP_OK);
        memtap_rtheap_destroy(heap);
    }
    pages_go_back(0);
    pages_go_back(MEMTAP_RTHEAP_HELPER);
    puts("ok");
    return 0;
}
