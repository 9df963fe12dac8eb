// Mappings that come, change, move and go, and touches of what is there then, or is not.
#define _GNU_SOURCE
#include "differ.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

struct touch {
    volatile uint8_t *where;
    bool writes;
    uint8_t value;
};

static void touch(void *argument)
{
    struct touch *touch = argument;
    if (touch->writes)
        *touch->where = touch->value;
    else
        touch->value = *touch->where;
}

static void touched(struct random *random)
{
    uint8_t *place = one_in(random, 4) ? MOVED : MAPPED;
    struct touch one = {.where = place + below(random, MAPPED_PAGES * PAGE), .writes = one_in(random, 2), .value = 7};
    struct fault fault;
    say(" %s%llx", one.writes ? "w" : "r", (unsigned long long)one.where);
    if (faults(touch, &one, &fault))
        say("!%d/%d@%llx", fault.signal, fault.code, (unsigned long long)fault.address);
    else
        say("=%d", one.value);
}

static int protection(struct random *random)
{
    static const int ALL[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC,
                              PROT_READ | PROT_WRITE | PROT_EXEC};
    return ALL[below(random, sizeof ALL / sizeof *ALL)];
}

static void result(const char *name, void *place, size_t pages, void *got)
{
    say(" %s %llx+%zu", name, (unsigned long long)place, pages);
    if (got == MAP_FAILED)
        say("!%d", errno);
}

static void *status(int failed)
{
    return failed ? MAP_FAILED : NULL;
}

void step_mappings(struct random *random)
{
    static int file = -1;
    if (file < 0) {
        int made = memfd_create("differ", 0);
        file = dup2(made, 210);
        close(made);
        if (ftruncate(file, 8 * PAGE) < 0)
            _exit(95);
    }
    for (uint64_t count = 4 + below(random, 10); count > 0; count--) {
        size_t first = below(random, MAPPED_PAGES), pages = 1 + below(random, MAPPED_PAGES - first);
        uint8_t *place = MAPPED + first * PAGE;
        size_t bytes = pages * PAGE - (one_in(random, 8) ? below(random, PAGE) : 0);
        // A place that does not begin with a page.
        if (one_in(random, 16))
            place += 1 + below(random, PAGE - 1);
        int flags = MAP_FIXED | (one_in(random, 3) ? MAP_SHARED : MAP_PRIVATE);
        switch (below(random, 9)) {
        case 0:
        case 1:
            result("map", place, pages, mmap(place, bytes, protection(random), flags | MAP_ANONYMOUS, -1, 0));
            break;
        case 2: {
            off_t offset = (off_t)(PAGE * below(random, 10));
            result("file", place, pages, mmap(place, bytes, protection(random), flags, file, offset));
            break;
        }
        case 3:
            result("unmap", place, pages, status(munmap(place, bytes)));
            break;
        case 4:
            result("protect", place, pages, status(mprotect(place, bytes, protection(random))));
            break;
        case 5: {
            uint8_t *to = MOVED + below(random, MAPPED_PAGES) * PAGE;
            size_t wanted = (1 + below(random, 4)) * PAGE;
            result("move", place, pages, mremap(place, bytes, wanted, MREMAP_MAYMOVE | MREMAP_FIXED, to));
            break;
        }
        case 6: {
            size_t wanted = (1 + below(random, 8)) * PAGE;
            result("resize", place, pages, mremap(place, bytes, wanted, 0));
            break;
        }
        case 7:
            result("advise", place, pages, status(madvise(place, bytes, one_in(random, 3) ? MADV_WILLNEED : MADV_DONTNEED)));
            break;
        default:
            result("lock", place, 1, status(mlock(place, PAGE)));
            munlock(place, PAGE);
            break;
        }
        touched(random);
        touched(random);
    }
    munmap(MAPPED, 2 * MAPPED_PAGES * PAGE);
    munmap(MOVED, 2 * MAPPED_PAGES * PAGE);
}
