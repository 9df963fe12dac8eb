// A member's address gives the struct that it is in.
// command: errors
// expect: nothing
#include <stddef.h>
#include <stdlib.h>
#include "../hide.h"

struct link {
    struct link *next;
};
struct task {
    long id, weight;
    struct link link;
    long done;
};

int main(void)
{
    struct link *first = NULL;
    for (int i = 0; i < 10; i++) {
        struct task *task = HIDE(malloc(sizeof *task));
        *task = (struct task){i, 2 * i, {first}, 0};
        first = HIDE(&task->link);
    }
    long all = 0;
    while (first) {
        struct task *task = (struct task *)((char *)first - offsetof(struct task, link));
        first = first->next;
        all += task->weight + task->done;
        free(task);
    }
    return all == 77;
}
