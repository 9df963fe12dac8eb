// The handler is set, with what it uses, while the thread that it interrupts runs already.
// command: race
// expect: nothing
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>
#include "../hide.h"

static long setting;
static volatile long seen;
static sem_t done;

static void use(int number)
{
    seen = *HIDE(&setting);
    sem_post(&done);
}

static void *wait_for_it(void *argument)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    while (!seen)
        usleep(1000);
    return NULL;
}

int main(void)
{
    sigset_t set;
    pthread_t thread;
    struct sigaction action = {.sa_handler = use};
    sem_init(&done, 0, 0);
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_create(&thread, NULL, wait_for_it, NULL);
    *HIDE(&setting) = 42;
    sigaction(SIGALRM, &action, NULL);
    ualarm(1000, 0);
    while (sem_wait(&done))
        ;
    pthread_join(thread, NULL);
    return seen == 77;
}
