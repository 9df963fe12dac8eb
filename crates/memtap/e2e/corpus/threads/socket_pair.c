// A thread hands a buffer over and back by messages through a pair of sockets.
// command: race
// expect: nothing
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>
#include "../hide.h"

static int sockets[2];
static long numbers[20];

static void *work(void *argument)
{
    char byte;
    for (int turn = 0; turn < 5; turn++) {
        if (recv(sockets[1], &byte, 1, 0) != 1)
            return NULL;
        for (int i = 0; i < 20; i++)
            *HIDE(&numbers[i]) += turn;
        if (send(sockets[1], &byte, 1, 0) != 1)
            return NULL;
    }
    return NULL;
}

int main(void)
{
    pthread_t thread;
    char byte = 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) != 0)
        return 1;
    pthread_create(&thread, NULL, work, NULL);
    for (int turn = 0; turn < 5; turn++) {
        for (int i = 0; i < 20; i++)
            *HIDE(&numbers[i]) += 1;
        if (send(sockets[0], &byte, 1, 0) != 1 || recv(sockets[0], &byte, 1, 0) != 1)
            return 1;
    }
    pthread_join(thread, NULL);
    return numbers[3] == 77;
}
