/* Function probes that are switched while the program runs. Link or preload libmemtap_probes.so.
 * Results: 0, or a negative MEMTAP_PROBE_* code. All calls may be made from any thread. */
#ifndef MEMTAP_PROBES_H
#define MEMTAP_PROBES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MEMTAP_PROBE_UNKNOWN (-1) /* no such probe */
#define MEMTAP_PROBE_REFUSED (-2) /* the code could not be changed, or another thread is changing it */
#define MEMTAP_PROBE_NULL (-3)    /* a null argument */

enum memtap_probe_kind {
    MEMTAP_PROBE_ENTRY = 0,
    MEMTAP_PROBE_EXIT = 1,
    MEMTAP_PROBE_ENTRY_WITH_RETURN = 2, /* at a function's first instruction: frame[1] is its return address */
    MEMTAP_PROBE_POINT = 3,
};

/* Called on a hit with the probe's identifier and the place on the stack of the address after the site. Integer and
 * xmm registers are saved; a handler must not use x87 or the upper halves of vector registers. A probe that is hit
 * inside a handler does nothing. */
typedef void (*memtap_probe_handler)(uint32_t id, uintptr_t *frame);

/* Sets what is called for each probe found from now on. It may run inside any function of the program. */
void memtap_probe_on_discovery(void (*callback)(uint32_t id));
/* Finds the probes of all loaded modules, switched off; how many there are then. */
uint32_t memtap_probe_discover(void);

int memtap_probe_activate(uint32_t id, memtap_probe_handler handler);
int memtap_probe_deactivate(uint32_t id);
/* Changes data only; no code changes. */
int memtap_probe_set_handler(uint32_t id, memtap_probe_handler handler);

uint32_t memtap_probe_count(void);
int memtap_probe_kind(uint32_t id);
/* Writes the function's symbol, cut to size bytes with its final NUL; returns the whole length without it. */
int memtap_probe_function(uint32_t id, char *text, size_t size);
/* The same for the function's source file, and its line to *line (may be NULL); 0 where no debug information says.
 * Slow, it reads files: not for handlers. */
int memtap_probe_source(uint32_t id, char *text, size_t size, uint32_t *line);

#ifdef __cplusplus
}
#endif

#endif
