// A forked child uses and releases the blocks of its parent, which releases them as well.
// command: errors
// record: --data
// expect: nothing
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../hide.h"

int main(void)
{
    for (int i = 0; i < 5; i++) {
        char *block = HIDE(malloc(100));
        memset(block, i, 100);
        pid_t child = fork();
        if (child == 0) {
            int sum = block[3] + HIDE(block[99]);
            free(block);
            block = HIDE(malloc(50));
            block[49] = sum;
            SHOW(block);
            free(block);
            _exit(0);
        }
        free(block);
        int status;
        if (waitpid(child, &status, 0) != child || status)
            return 1;
    }
    return 0;
}
