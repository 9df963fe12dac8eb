// Functions that know how long they take: each turns round until the processor's clock has gone on by so much. Printed at the end, a line a
// function: its name, calls, ticks with its callees (of recursive calls once), and outside of them; and behind both how much of that
// it turned or slept. The rest is probes, and what other programs had the processor for: turns that took long.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <thread>
#include <x86intrin.h>

#define KEPT extern "C" __attribute__((noinline))
#define PART inline __attribute__((always_inline))

struct Ticks {
    uint64_t all, turned;
};

struct Taken {
    const char *name;
    uint64_t calls;
    Ticks total, own;
};

static thread_local uint64_t turned_by_thread;

// A call under way: what it has taken, and what its callees have.
struct Call {
    uint64_t start, turned;
    Ticks inside = {0, 0};

    PART Call() : start(__rdtsc()), turned(turned_by_thread) {}

    PART void add(Ticks callee) {
        inside.all += callee.all;
        inside.turned += callee.turned;
    }

    // Its end.
    PART Ticks end(Taken &taken, bool outermost = true) {
        Ticks total = {__rdtsc() - start, turned_by_thread - turned};
        taken.calls += 1;
        taken.total.all += outermost ? total.all : 0;
        taken.total.turned += outermost ? total.turned : 0;
        taken.own.all += total.all - inside.all;
        taken.own.turned += total.turned - inside.turned;
        return total;
    }
};

// Those that both threads call are added up at the end.
static thread_local Taken small = {"small_one"}, leaf = {"leaf_one"};
static Taken small_of_other, leaf_of_other;
static Taken middle = {"middle_one"}, outer = {"outer_one"}, deep = {"deep_one"}, seldom = {"seldom_one"}, waits = {"waits_one"},
             other = {"other_one"};

// Until `ticks` have passed.
static PART void turn(uint64_t ticks) {
    uint64_t start = __rdtsc(), now = start;
    while (now - start < ticks) {
        uint64_t next = __rdtsc();
        if (next - now <= 20000) turned_by_thread += next - now;
        now = next;
    }
}

KEPT Ticks small_one() {
    Call call;
    turn(400);
    return call.end(small);
}

KEPT Ticks leaf_one() {
    Call call;
    turn(3000);
    return call.end(leaf);
}

KEPT Ticks middle_one() {
    Call call;
    turn(2000);
    for (int i = 0; i < 3; i++) call.add(leaf_one());
    call.add(small_one());
    turn(2000);
    return call.end(middle);
}

KEPT Ticks deep_one(int depth, bool outermost) {
    Call call;
    turn(1500);
    call.add(depth ? deep_one(depth - 1, false) : small_one());
    return call.end(deep, outermost);
}

KEPT Ticks seldom_one() {
    Call call;
    turn(20000000);
    return call.end(seldom);
}

KEPT Ticks waits_one() {
    Call call;
    struct timespec pause = {0, 3000000};
    nanosleep(&pause, nullptr);
    turned_by_thread += __rdtsc() - call.start;
    return call.end(waits);
}

KEPT Ticks outer_one(int rounds) {
    Call call;
    for (int i = 0; i < rounds; i++) {
        turn(500);
        call.add(middle_one());
        if (i % 16 == 0) call.add(deep_one(i % 7, true));
    }
    return call.end(outer);
}

// The other thread: short calls, and leaves that it shares.
KEPT void other_one(int rounds) {
    Call call;
    for (int i = 0; i < rounds; i++) {
        turn(1000);
        call.add(i % 4 ? small_one() : leaf_one());
    }
    call.end(other);
    small_of_other = small;
    leaf_of_other = leaf;
}

static void print(const Taken &taken, const Taken &more) {
    std::printf("%s %lu %lu %lu %lu %lu\n", taken.name, taken.calls + more.calls, taken.total.all + more.total.all,
                taken.total.turned + more.total.turned, taken.own.all + more.own.all, taken.own.turned + more.own.turned);
}

// How often the profiler's thread has gone to sleep; 0 where there is none.
static unsigned long sleeps_of_profiler() {
    unsigned long sleeps = 0;
    DIR *tasks = opendir("/proc/self/task");
    while (dirent *task = tasks ? readdir(tasks) : nullptr) {
        char path[300], line[200];
        bool is_it = false;
        std::snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *status = std::fopen(path, "r");
        while (status && std::fgets(line, sizeof line, status)) {
            is_it |= std::strcmp(line, "Name:\tmemtap-probes\n") == 0;
            if (is_it) std::sscanf(line, "voluntary_ctxt_switches: %lu", &sleeps);
        }
        if (status) std::fclose(status);
    }
    if (tasks) closedir(tasks);
    return sleeps;
}

// Waits until the profiler has opened its windows again, however late it is: of a process that waits, it passes over nine epochs.
static void wait_for_windows() {
    unsigned long before = sleeps_of_profiler();
    struct timespec pause = {0, 1000000};
    while (before != 0 && sleeps_of_profiler() < before + 12) nanosleep(&pause, nullptr);
}

int main() {
    std::thread thread(other_one, 300000);
    for (int part = 0; part < 4; part++) {
        outer_one(12000);
        seldom_one();
        for (int i = 0; i < 20; i++) {
            waits_one();
            // A window is open for ten calls, or for one, until it is known that they are long.
            if (part == 0 && (i == 0 || i == 9)) wait_for_windows();
        }
        wait_for_windows();
    }
    thread.join();
    print(small, small_of_other);
    print(leaf, leaf_of_other);
    const Taken none = {};
    const Taken *others[] = {&middle, &outer, &deep, &seldom, &waits, &other};
    for (const Taken *taken : others) print(*taken, none);
}
