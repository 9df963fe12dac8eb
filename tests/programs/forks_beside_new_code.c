// Forks while another thread executes code that is new all the time: where a tracer translates code and holds a lock for it, the fork
// must neither wait for it for ever nor leave it to the child.
// build: -pthread
// lackey: no
// expect: cell size=4 loads=61 stores=60
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 60, FUNCTIONS = 256, FUNCTION_BYTES = 16 };
volatile int cell;
static atomic_int ended;

static void *executes_new_code(void *nothing) {
    // mov eax, 1; ret
    static const unsigned char CODE[] = {0xb8, 1, 0, 0, 0, 0xc3};
    while (!ended) {
        unsigned char *code = mmap(NULL, FUNCTIONS * FUNCTION_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (code == MAP_FAILED) abort();
        for (int i = 0; i < FUNCTIONS; i++) memcpy(code + i * FUNCTION_BYTES, CODE, sizeof CODE);
        if (mprotect(code, FUNCTIONS * FUNCTION_BYTES, PROT_READ | PROT_EXEC) != 0) abort();
        for (int i = 0; i < FUNCTIONS; i++)
            if (((int (*)(void))(code + i * FUNCTION_BYTES))() != 1) abort();
        munmap(code, FUNCTIONS * FUNCTION_BYTES);
    }
    return nothing;
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, executes_new_code, NULL) != 0) return 1;
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        if (child == 0) {
            cell++;
            _exit(0);
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
    }
    ended = 1;
    pthread_join(thread, NULL);
    return cell;
}
