/* memtap.h - mark points of a program for memtap.
 *
 *     memtap_start();          record from here on
 *     memtap_stop();           record no further
 *     memtap_mark("decode");   put a name into the trace
 *
 * Nothing has to be linked: under `memtap record` the calls reach the recorder, otherwise each is a load and a branch.
 * Works in C and C++, in position-independent, fixed and static programs, and in libraries.
 * Licence: MIT OR Apache-2.0.
 */
#ifndef MEMTAP_H
#define MEMTAP_H

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*memtap_hook_)(void);
typedef void (*memtap_mark_hook_)(const char *name);

/* A weak reference read from the global offset table: written in C, the linker settles it to null in fixed programs. */
#if defined(__x86_64__) && defined(__ELF__)
#define MEMTAP_HOOK_(hook, name) \
    __asm__ volatile(".weak " name "\n\tmovq " name "@GOTPCREL(%%rip), %0" : "=r"(hook))
#else
#define MEMTAP_HOOK_(hook, name) ((void)((hook) = 0))
#endif
#define MEMTAP_INLINE_ static inline __attribute__((always_inline, unused))

/* The assembler names keep the hooks' names free, should a call not be inlined. */
MEMTAP_INLINE_ void memtap_start(void) __asm__("memtap_start_call_");
MEMTAP_INLINE_ void memtap_stop(void) __asm__("memtap_stop_call_");
MEMTAP_INLINE_ void memtap_mark(const char *name) __asm__("memtap_mark_call_");

/* Records from here on, in every thread. */
MEMTAP_INLINE_ void memtap_start(void)
{
    memtap_hook_ hook;
    MEMTAP_HOOK_(hook, "memtap_start");
    if (hook)
        hook();
}

/* Records no further, in any thread, until the next start. */
MEMTAP_INLINE_ void memtap_stop(void)
{
    memtap_hook_ hook;
    MEMTAP_HOOK_(hook, "memtap_stop");
    if (hook)
        hook();
}

/* Puts a named point among the calling thread's events. The name is copied. */
MEMTAP_INLINE_ void memtap_mark(const char *name)
{
    memtap_mark_hook_ hook;
    MEMTAP_HOOK_(hook, "memtap_mark");
    if (hook)
        hook(name);
}

/* Marks a point for the recorder of a whole machine (record --tracer qemu), from a program or the kernel of the guest: an
 * instruction that does nothing elsewhere. The number is a constant below 65,536; with --marked, 0 and 1 start and stop
 * recording. */
#if defined(__x86_64__)
#define memtap_guest_mark(number) \
    __asm__ volatile("nopl %c0(%%rax,%%rax,1)" : : "i"(0x6d740000 | (number)) : "memory")
#else
#define memtap_guest_mark(number) ((void)(number))
#endif

#ifdef __cplusplus
}
#endif

#endif
