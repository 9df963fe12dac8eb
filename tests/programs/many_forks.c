// A thousand children and more, one after the other: each is a process of the session.
// lackey: no
// expect: cell size=4 loads=1101 stores=1100
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 1100 };
volatile int cell;

int main(void) {
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        if (child == 0) {
            cell++;
            _exit(0);
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
    }
    return cell;
}
