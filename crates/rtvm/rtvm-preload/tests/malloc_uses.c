/* Uses of malloc(3) under the preloaded heap; the argument says which. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                                       \
    do {                                                                  \
        if (!(what)) {                                                    \
            fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #what); \
            exit(1);                                                      \
        }                                                                 \
    } while (0)

static void *churn(void *seed)
{
    void *blocks[40] = {0};
    unsigned state = (unsigned)(uintptr_t)seed;
    for (int round = 0; round < 5000; round++) {
        state = state * 1664525u + 1013904223u;
        int which = (state >> 8) % 40;
        size_t bytes = (state >> 12) % 30000;
        blocks[which] = state & 1 ? (free(blocks[which]), malloc(bytes)) : realloc(blocks[which], bytes + 1);
        CHECK(blocks[which]);
        memset(blocks[which], which, bytes);
    }
    for (int i = 0; i < 40; i++)
        free(blocks[i]);
    return NULL;
}

static int threads_now(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks);
    for (struct dirent *entry; (entry = readdir(tasks));)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* A program that takes little stays single-threaded; one that takes much gets a thread that gives it back, and so does its child. */
static void threads(void)
{
    for (int i = 0; i < 1000; i++)
        free(malloc((size_t)i * 1000 % 65000));
    CHECK(threads_now() == 1);
    for (int generation = 0; generation < 2; generation++) {
        free(malloc(1000000));
        CHECK(threads_now() == 1);
        for (int i = 0; i < 20; i++)
            free(malloc(1000000));
        CHECK(threads_now() == 2);
        if (!generation) {
            pid_t child = fork();
            CHECK(child >= 0);
            if (child) {
                int status;
                CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
                exit(WEXITSTATUS(status));
            }
        }
    }
    puts("ok");
}

static void all(void)
{
    const char *(*name)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "memtap_rtmalloc_name");
    uint64_t (*returned)(void) = (uint64_t (*)(void))dlsym(RTLD_DEFAULT, "memtap_rtmalloc_returned_bytes");
    CHECK(name && returned && !strcmp(name(), "memtap rtmalloc"));

    char *p = malloc(100);
    CHECK(p && malloc_usable_size(p) >= 100);
    memset(p, 'p', 100);
    p = realloc(p, 100000);
    CHECK(p && p[99] == 'p');
    free(p);
    p = calloc(1000, 10);
    CHECK(p && !p[0] && !p[9999]);
    free(p);
    errno = 0;
    CHECK(!calloc(SIZE_MAX, 2) && errno == ENOMEM);
    CHECK(!malloc(SIZE_MAX) && !reallocarray(NULL, SIZE_MAX, 2));
    for (size_t align = 8; align <= 1 << 20; align *= 2) {
        void *q = NULL;
        CHECK(posix_memalign(&q, align, 33) == 0 && (uintptr_t)q % align == 0);
        free(q);
        q = aligned_alloc(align, align);
        CHECK(q && (uintptr_t)q % align == 0);
        free(q);
    }
    void *q;
    CHECK(posix_memalign(&q, 24, 1) == EINVAL && posix_memalign(&q, 2, 1) == EINVAL);
    q = valloc(1);
    CHECK((uintptr_t)q % 4096 == 0);
    free(q);
    q = pvalloc(1);
    CHECK((uintptr_t)q % 4096 == 0 && malloc_usable_size(q) >= 4096);
    free(q);
    free(NULL);

    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        CHECK(!pthread_create(&threads[i], NULL, churn, (void *)(i + 1)));
    /* Children of a program whose threads are in the middle of it. */
    for (int i = 0; i < 30; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child) {
            for (int j = 0; j < 100; j++)
                free(malloc((size_t)j * 1000));
            _exit(7);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);

    /* Released pages go back, sooner or later. */
    uint64_t before = returned();
    p = malloc(32 << 20);
    CHECK(p);
    memset(p, 1, 32 << 20);
    free(p);
    while (returned() - before < (31 << 20))
        usleep(1000);
    puts("ok");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "all";
    char *p = malloc(100), *q = malloc(100), *r = malloc(100);
    CHECK(p && q && r);
    if (!strcmp(what, "all"))
        all();
    else if (!strcmp(what, "threads"))
        threads();
    else if (!strcmp(what, "twice"))
        free(q), free(q);
    else if (!strcmp(what, "wrong"))
        free(q + 8);
    else if (!strcmp(what, "over")) {
        // Beyond the end of the one into the other: a thread's cache gives the higher one first.
        char *low = q < r ? q : r, *high = q < r ? r : q;
        memset(low, 0xff, 140), free(high);
    }
    return 0;
}
