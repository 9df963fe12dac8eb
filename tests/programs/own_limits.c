// Sets limits of its memory, which hold as natively: for it, for its children, and for the program that it becomes.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SET_MDWE = 65, GET_MDWE = 66 };

static void ask(const char *who) {
    struct rlimit space, data;
    getrlimit(RLIMIT_AS, &space);
    getrlimit(RLIMIT_DATA, &data);
    printf("%s: %ld %ld, %ld %ld, %d\n", who, (long)space.rlim_cur, (long)space.rlim_max, (long)data.rlim_cur,
           (long)data.rlim_max, prctl(GET_MDWE, 0, 0, 0, 0));
    // Less than a limit, and more.
    for (size_t bytes = 20 << 20; bytes <= 600 << 20; bytes += 580 << 20) {
        char *memory = malloc(bytes);
        if (memory) memset(memory, 1, 4096);
        printf("%s: %zu %d\n", who, bytes, memory != 0);
        free(memory);
    }
    void *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("%s: code %d\n", who, code == MAP_FAILED ? errno : 0);
    void *data_page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = 0;
    int result = mprotect(data_page, 4096, PROT_READ | PROT_EXEC);
    printf("%s: right %d %d\n", who, result, errno);
    fflush(stdout);
}

static void *thread(void *argument) {
    ask("thread");
    return argument;
}

int main(int argc, char **argv) {
    if (argc > 2) {
        ask("program");
        return 0;
    }
    struct rlimit space = {512 << 20, 1 << 30}, data = {64 << 20, 64 << 20}, wrong = {2, 1};
    if (!strcmp(argv[1], "space")) printf("set %d\n", setrlimit(RLIMIT_AS, &space));
    if (!strcmp(argv[1], "data")) printf("set %d\n", setrlimit(RLIMIT_DATA, &data));
    if (!strcmp(argv[1], "rights")) {
        int result = prctl(SET_MDWE, 1, 0, 0, 0);
        printf("set %d %d\n", result, prctl(SET_MDWE, 1, 1, 0, 0));
    }
    printf("wrong %d\n", setrlimit(RLIMIT_AS, &wrong));
    ask("first");
    pthread_t id;
    // Where the limit leaves no room for its stack there is no thread to wait for.
    if (!pthread_create(&id, 0, thread, 0))
        pthread_join(id, 0);
    if (!fork()) {
        ask("child");
        _exit(0);
    }
    int status;
    wait(&status);
    execl("/proc/self/exe", argv[0], argv[1], "again", (char *)0);
    return 127;
}
