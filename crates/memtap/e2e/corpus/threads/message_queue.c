// Results are announced by System V's message queues and semaphores, and by a timer that is read.
// command: race
// expect: nothing
#include <pthread.h>
#include <stdint.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "../hide.h"

struct message {
    long kind;
    char text[8];
};

static int queue, semaphore, timer;
static long by_message, by_semaphore, by_timer;

static void *work(void *argument)
{
    struct message message = {1, "done"};
    struct sembuf up = {.sem_op = 1};
    struct itimerspec soon = {.it_value = {.tv_nsec = 1000000}};
    *HIDE(&by_message) = 1;
    msgsnd(queue, &message, sizeof message.text, 0);
    *HIDE(&by_semaphore) = 2;
    semop(semaphore, &up, 1);
    *HIDE(&by_timer) = 3;
    timerfd_settime(timer, 0, &soon, NULL);
    return NULL;
}

int main(void)
{
    struct message message;
    struct sembuf down = {.sem_op = -1};
    uint64_t times;
    pthread_t thread;
    queue = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
    semaphore = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
    timer = timerfd_create(CLOCK_MONOTONIC, 0);
    pthread_create(&thread, NULL, work, NULL);
    msgrcv(queue, &message, sizeof message.text, 0, 0);
    long value = HIDE(*HIDE(&by_message));
    semop(semaphore, &down, 1);
    value += HIDE(*HIDE(&by_semaphore));
    if (read(timer, &times, sizeof times) != sizeof times)
        return 2;
    value += HIDE(*HIDE(&by_timer));
    pthread_join(thread, NULL);
    msgctl(queue, IPC_RMID, NULL);
    semctl(semaphore, 0, IPC_RMID);
    return value == 77;
}
