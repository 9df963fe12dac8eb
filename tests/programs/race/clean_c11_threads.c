// Threads and locks of C11.
// build: -pthread
#include <threads.h>

static mtx_t lock;
static cnd_t changed;
static int turn;
int total;

static int play(void *arg)
{
    int me = *(int *)arg;
    for (int i = 0; i < 5; i++) {
        mtx_lock(&lock);
        while (turn != me)
            cnd_wait(&changed, &lock);
        total += me + 1;
        turn = !me;
        cnd_broadcast(&changed);
        mtx_unlock(&lock);
    }
    return 0;
}

int main(void)
{
    static int names[2] = { 0, 1 };
    thrd_t a, b;
    mtx_init(&lock, mtx_plain);
    cnd_init(&changed);
    thrd_create(&a, play, &names[0]);
    thrd_create(&b, play, &names[1]);
    thrd_join(a, 0);
    thrd_join(b, 0);
    return total != 15;
}
