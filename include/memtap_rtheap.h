/* memtap_rtheap.h - a heap whose malloc and free take constant time.
 *
 *     memtap_rtheap *heap = memtap_rtheap_create(64 << 20, MEMTAP_RTHEAP_PREFAULT);
 *     void *block = memtap_rtheap_malloc(heap, 1000);
 *     memtap_rtheap_free(heap, block);
 *     memtap_rtheap_destroy(heap);
 *
 * Link with -lmemtap_rtheap. Two-level segregated fit: malloc touches at most 40 words, free at most 50, whatever the sizes
 * and whatever happened before (docs/rtvm.md). Calls of several threads wait for each other in a mutex with priority
 * inheritance. memalign and realloc in place are constant too; calloc, and realloc that moves, are linear in the block.
 * For programs that can't be changed: LD_PRELOAD=libmemtap_rtmalloc.so.
 * Licence: MIT OR Apache-2.0.
 */
#ifndef MEMTAP_RTHEAP_H
#define MEMTAP_RTHEAP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct memtap_rtheap memtap_rtheap;

/* All pages are present from the start, locked where the user may, and stay: no call takes a page fault. */
#define MEMTAP_RTHEAP_PREFAULT 1u
/* A thread gives pages back to the kernel half a second after their release, unless they are used again before. Without it,
   memtap_rtheap_trim does. Not with PREFAULT. */
#define MEMTAP_RTHEAP_HELPER 2u

/* What memtap_rtheap_free and _check return. An error leaves the heap as it was. */
#define MEMTAP_RTHEAP_OK 0
#define MEMTAP_RTHEAP_INVALID (-1)      /* no heap */
#define MEMTAP_RTHEAP_NO_MEMORY (-2)
#define MEMTAP_RTHEAP_NOT_A_BLOCK (-3)  /* no block begins there */
#define MEMTAP_RTHEAP_ALREADY_FREE (-4) /* released before */
#define MEMTAP_RTHEAP_CORRUPT (-5)      /* something wrote over a tag */

/* A heap over a new arena, or null. */
memtap_rtheap *memtap_rtheap_create(size_t bytes, uint32_t flags);
/* Ends a heap and all its blocks. */
void memtap_rtheap_destroy(memtap_rtheap *heap);

/* Blocks are at multiples of 16. Null where the arena has no room; alignments are powers of two up to 2 MiB. */
void *memtap_rtheap_malloc(memtap_rtheap *heap, size_t bytes);
void *memtap_rtheap_calloc(memtap_rtheap *heap, size_t count, size_t size);
void *memtap_rtheap_memalign(memtap_rtheap *heap, size_t align, size_t bytes);
/* Null where it fails: the block is as it was then. */
void *memtap_rtheap_realloc(memtap_rtheap *heap, void *block, size_t bytes);
int memtap_rtheap_free(memtap_rtheap *heap, void *block);
/* 0 where no block begins there. */
size_t memtap_rtheap_usable_size(memtap_rtheap *heap, void *block);

/* Gives released whole pages back to the kernel. Linear in pages; others can use the heap meanwhile. */
void memtap_rtheap_trim(memtap_rtheap *heap);
/* Bytes given back so far. */
uint64_t memtap_rtheap_returned_bytes(memtap_rtheap *heap);
/* Goes through all tags; linear. */
int memtap_rtheap_check(memtap_rtheap *heap);

/* Bytes of an arena in which no request of at most `largest` bytes fails while at most `live_blocks` blocks of together
 * `live_bytes` bytes are live. 0 where 64 bits don't count them. */
uint64_t memtap_rtheap_arena_bytes(uint64_t live_bytes, uint64_t live_blocks, uint64_t largest);

#ifdef __cplusplus
}
#endif

#endif
