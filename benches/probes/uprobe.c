/* The kernel's uprobes: one on a function of this program, through perf_event_open. Exits 1 where that is not allowed. */
#define _GNU_SOURCE
#include "ticks.h"
#include <linux/perf_event.h>
#include <link.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((noipa)) void probed(void) { __asm__ volatile("nop"); }

static struct perf_event_attr attributes;
static int event = -1;
static int on(void) {
    event = syscall(SYS_perf_event_open, &attributes, getpid(), -1, -1, PERF_FLAG_FD_CLOEXEC);
    return event < 0;
}
static int off(void) { return close(event); }

static int first_module(struct dl_phdr_info *info, size_t size, void *bias) {
    (void)size;
    *(uintptr_t *)bias = info->dlpi_addr;
    return 1;
}

int main(void) {
    FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
    unsigned type;
    static char self[4096];
    uintptr_t bias = 0;
    if (!file || fscanf(file, "%u", &type) != 1) return 1;
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return 1;
    dl_iterate_phdr(first_module, &bias);
    attributes.size = sizeof attributes;
    attributes.type = type;
    attributes.uprobe_path = (uintptr_t)self;
    attributes.probe_offset = (uintptr_t)probed - bias; /* linked so that addresses are offsets in the file */
    attributes.sample_period = 1ull << 62;              /* counted only: nothing is written for a hit */
    if (on()) {
        perror("perf_event_open");
        return 1;
    }
    probed();
    uint64_t count = 0;
    if (read(event, &count, sizeof count) != sizeof count || count != 1) {
        fprintf(stderr, "%llu hits instead of 1\n", (unsigned long long)count);
        return 1;
    }
    off();
    measure("uprobe, counted by perf", 20, on, off);
    return 0;
}
