/* What the compiler must not know in cases of the corpus: a value that went through HIDE may be any, and memory may have
   changed. So it neither warns of the error nor takes it for a promise. */
#ifndef HIDE_H
#define HIDE_H

#ifdef __cplusplus
template <typename T>
static inline __attribute__((always_inline)) T hidden(T value)
{
    __asm__ volatile("" : "+r"(value) : : "memory");
    return value;
}
#define HIDE(...) hidden(__VA_ARGS__)
#else
#define HIDE(...)                                                                                                      \
    __extension__({                                                                                                    \
        __auto_type hidden = (__VA_ARGS__);                                                                            \
        __asm__ volatile("" : "+r"(hidden) : : "memory");                                                              \
        hidden;                                                                                                        \
    })
#endif

/* Somebody may read all that this points to. */
#define SHOW(pointer) __asm__ volatile("" : : "r"(pointer) : "memory")

#define NOINLINE __attribute__((noinline))

#endif
