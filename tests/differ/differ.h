// Steps that a program takes, drawn from a seed: each says in one line what it did and what came of it, and that line depends on the
// seed and the kernel alone. So it is the same natively and recorded, or the tracer changes what a program does.
#ifndef DIFFER_H
#define DIFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Numbers of one step: the same ones in each run.
struct random {
    uint64_t state;
};
uint64_t draw(struct random *random);
// Less than `n`.
uint64_t below(struct random *random, uint64_t n);
// With a chance of one in `n`.
bool one_in(struct random *random, uint64_t n);

// Adds to the line of the step. Formats are those of printf; it may be called from a handler.
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);
// Whether bytes and registers are to be shown, and not only what their hash is.
extern bool verbose;
// Writes what was said so far: for who forks, or may not come back.
void flush_line(void);

// Memory at addresses that are the same in each run.
enum {
    PAGE = 4096,
    OPEN_BYTES = 2 * PAGE,
};
// Two pages that can be read and written; then one that can't be touched, one that can be read, and nothing.
#define OPEN ((uint8_t *)0x2000000000)
#define CLOSED (OPEN + OPEN_BYTES)
#define READABLE (CLOSED + PAGE)
#define NOTHING (READABLE + PAGE)
// Where steps map what they like: this many pages, and as many for a second place.
#define MAPPED ((uint8_t *)0x2100000000)
#define MOVED ((uint8_t *)0x2180000000)
enum { MAPPED_PAGES = 32 };
// Where steps write code.
#define CODE ((uint8_t *)0x2200000000)
enum { CODE_PAGES = 4 };

// Fills the open pages with numbers of the step.
void fill_open(struct random *random);
// What is in the open pages.
uint64_t hash_open(void);
uint64_t hash(const void *bytes, size_t count);

// What a signal of the processor brought.
struct fault {
    int signal;
    int code;
    uint64_t address;
    // The program's registers then, as the kernel gave them.
    uint64_t registers[16];
    uint64_t instruction;
    uint64_t flags;
};
// Calls a function; true where that ends by SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGTRAP.
bool faults(void (*function)(void *), void *argument, struct fault *fault);

// Says what the program was given by who executed it.
void show_state(void);

// The kinds of steps.
void step_call(struct random *random);
void step_mappings(struct random *random);
void step_code(struct random *random);
void step_signals(struct random *random);
void step_processes(struct random *random);

#endif
