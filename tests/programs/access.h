// One access each, whatever the compiler does: the operand is the named variable, everything else stays in registers.
#ifndef ACCESS_H
#define ACCESS_H

#define LOAD(var) \
    __extension__({ __typeof__(var) v_; __asm__ volatile("mov %1, %0" : "=r"(v_) : "m"(var)); v_; })
#define LOAD_BYTE(var) \
    __extension__({ __typeof__(var) v_; __asm__ volatile("mov %1, %0" : "=q"(v_) : "m"(var)); v_; })
#define STORE(var, value) __asm__ volatile("mov %1, %0" : "=m"(var) : "r"((__typeof__(var))(value)))
#define STORE_BYTE(var, value) __asm__ volatile("mov %1, %0" : "=m"(var) : "q"((__typeof__(var))(value)))
// A read-modify-write: `op` with its size suffix and source, such as "addl $1,".
#define MODIFY(op, var) __asm__ volatile(op " %0" : "+m"(var) : : "cc")

// A count of turns that lives in a register.
#define REPEAT(n) for (long i_ = 0; i_ < (n); i_++)

#endif
