// An allocator that maps its memory when it is first asked, which is before anybody's own code runs: it never gives anything back.
// alone: no
// build: -shared -fPIC -fno-builtin
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#define ALL (1ul << 32)

static char *memory;
static size_t used;

void *malloc(size_t bytes)
{
    char *known = __atomic_load_n(&memory, __ATOMIC_ACQUIRE);
    if (known == NULL) {
        char *mapped = mmap(NULL, ALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        known = mapped;
        char *none = NULL;
        if (!__atomic_compare_exchange_n(&memory, &none, mapped, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            munmap(mapped, ALL);
            known = none;
        }
    }
    // The size lies before the block.
    size_t whole = (bytes + 31) & ~(size_t)15;
    size_t at = __atomic_fetch_add(&used, whole, __ATOMIC_RELAXED);
    if (at + whole > ALL) return NULL;
    *(size_t *)(known + at) = bytes;
    return known + at + 16;
}

void free(void *block) { (void)block; }

void *calloc(size_t count, size_t bytes) { return malloc(count * bytes); }

void *realloc(void *block, size_t bytes)
{
    void *grown = malloc(bytes);
    size_t old = block == NULL ? 0 : ((size_t *)block)[-2];
    if (grown != NULL && old != 0) memcpy(grown, block, old < bytes ? old : bytes);
    return grown;
}
