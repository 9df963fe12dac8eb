/* What the compiler must not know in cases of the corpus: a value that went through HIDE may be any, and memory may have
   changed. So it neither warns of the error nor takes it for a promise. */
#ifndef HIDE_H
#define HIDE_H

#define HIDE(value)                                                                                                    \
    __extension__({                                                                                                    \
        __typeof__(value) hidden = (value);                                                                            \
        __asm__ volatile("" : "+r"(hidden) : : "memory");                                                              \
        hidden;                                                                                                        \
    })

/* Somebody may read all that this points to. */
#define SHOW(pointer) __asm__ volatile("" : : "r"(pointer) : "memory")

#define NOINLINE __attribute__((noinline))

#endif
