// Threads that are cancelled deep in measured functions: every destructor and cleanup handler runs, as natively.
#include <atomic>
#include <cstdio>
#include <pthread.h>
#include <unistd.h>

#define KEPT extern "C" __attribute__((noipa))

static std::atomic<int> destroyed{0}, cleaned{0}, ready{0};

struct Held {
    ~Held() { destroyed++; }
};
static void cleanup(void *) { cleaned++; }

KEPT void waits() {
    ready++;
    for (;;) pause();
}
KEPT void level(int depth) {
    Held held;
    if (depth == 0)
        waits();
    else
        level(depth - 1);
    asm volatile("" ::: "memory");
}
KEPT void *body(void *) {
    Held held;
    pthread_cleanup_push(cleanup, nullptr);
    level(4);
    pthread_cleanup_pop(0);
    return nullptr;
}

int main() {
    const int threads = 20;
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        pthread_create(&thread, nullptr, body, nullptr);
        while (ready <= i) usleep(100);
        pthread_cancel(thread);
        void *result = nullptr;
        pthread_join(thread, &result);
        if (result != PTHREAD_CANCELED) return 1;
    }
    std::printf("%d destroyed, %d cleaned\n", destroyed.load(), cleaned.load());
}
