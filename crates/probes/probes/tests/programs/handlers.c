/* The C interface as a program uses it, and handlers that do not return: by longjmp, by a crash that a signal handler
 * leaves, by both after switching their own probe off. No site may stay locked, no probe mute. */
#include "memtap_probes.h"
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            printf("line %d: %s\n", __LINE__, #what);                                                                  \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static unsigned hits, others, found;
static uint32_t last, target;
static jmp_buf place;
static sigjmp_buf after_crash;

static void count(uint32_t id, uintptr_t *frame) {
    hits++;
    last = id;
    CHECK(frame != NULL);
}
static void count_others(uint32_t id, uintptr_t *frame) {
    (void)id, (void)frame;
    others++;
}
static void jumps(uint32_t id, uintptr_t *frame) {
    (void)id, (void)frame;
    longjmp(place, 1);
}
static void crashes(uint32_t id, uintptr_t *frame) {
    (void)id, (void)frame;
    *(volatile int *)8 = 1;
}
static void switches_and_jumps(uint32_t id, uintptr_t *frame) {
    (void)frame;
    CHECK(memtap_probe_deactivate(id) == 0);
    longjmp(place, 1);
}
static void on_crash(int signal) {
    (void)signal;
    siglongjmp(after_crash, 1);
}
static void discovered(uint32_t id) {
    (void)id;
    found++;
}

enum { WORK_LINE = __LINE__ + 4 };
#ifdef __cplusplus
extern "C"
#endif
__attribute__((noipa)) int work(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum += i * i;
    return sum;
}

static uint32_t find(const char *name) {
    char text[64];
    for (uint32_t id = 0; id < memtap_probe_count(); id++)
        if (memtap_probe_function(id, text, sizeof text) > 0 && strcmp(text, name) == 0 &&
            memtap_probe_kind(id) != MEMTAP_PROBE_EXIT)
            return id;
    printf("no probe %s\n", name);
    exit(1);
}

static void works_again(void) {
    CHECK(memtap_probe_deactivate(target) == 0);
    unsigned before = hits;
    CHECK(work(4) == 14 && hits == before);
    CHECK(memtap_probe_activate(target, count) == 0);
    CHECK(work(4) == 14 && hits == before + 1 && last == target);
}

int main(void) {
    signal(SIGSEGV, on_crash);
    memtap_probe_on_discovery(discovered);
    CHECK(memtap_probe_discover() == memtap_probe_count() && found == memtap_probe_count() && found > 0);
    target = find("work");
    char cut[3];
    CHECK(memtap_probe_function(target, cut, sizeof cut) == 4 && strcmp(cut, "wo") == 0);
    char file[512];
    uint32_t line = 0;
    int length = memtap_probe_source(target, file, sizeof file, &line);
    CHECK(length > 10 && strcmp(file + length - 10, "handlers.c") == 0 && line >= WORK_LINE && line < WORK_LINE + 5);
    CHECK(memtap_probe_source(1u << 30, file, sizeof file, &line) == MEMTAP_PROBE_UNKNOWN);
    CHECK(memtap_probe_kind(target) == MEMTAP_PROBE_ENTRY_WITH_RETURN);
    CHECK(memtap_probe_kind(1u << 30) == MEMTAP_PROBE_UNKNOWN);
    CHECK(memtap_probe_activate(1u << 30, count) == MEMTAP_PROBE_UNKNOWN);
    CHECK(memtap_probe_activate(target, NULL) == MEMTAP_PROBE_NULL);
    CHECK(work(4) == 14 && hits == 0);

    CHECK(memtap_probe_activate(target, count) == 0);
    for (int i = 0; i < 10; i++) CHECK(work(4) == 14);
    CHECK(hits == 10 && last == target);
    CHECK(memtap_probe_set_handler(target, count_others) == 0);
    CHECK(work(4) == 14 && hits == 10 && others == 1);
    works_again();

    for (int round = 0; round < 100; round++) {
        CHECK(memtap_probe_set_handler(target, jumps) == 0);
        if (setjmp(place) == 0) {
            work(4);
            CHECK(!"reached");
        }
        works_again();
        CHECK(memtap_probe_set_handler(target, crashes) == 0);
        if (sigsetjmp(after_crash, 1) == 0) {
            work(4);
            CHECK(!"reached");
        }
        works_again();
        CHECK(memtap_probe_set_handler(target, switches_and_jumps) == 0);
        if (setjmp(place) == 0) {
            work(4);
            CHECK(!"reached");
        }
        works_again();
    }
    puts("fine");
    return 0;
}
