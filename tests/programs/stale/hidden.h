// A pointer of which the compiler does not know where it comes from: it can't warn of what is done with it, or leave it out.
#include "access.h"

#define HIDDEN(pointer) __extension__({ __typeof__((pointer) + 0) p_ = (pointer); __asm__ volatile("" : "+r"(p_) : : "memory"); p_; })
