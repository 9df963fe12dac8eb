// Connections hand a slot from thread to thread: a socketpair, one over TCP, one by a path, and datagrams without a connection.
// build: -pthread
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int pair[2], tcp, path, inbox;
static struct sockaddr_in tcp_name, inbox_name;
static struct sockaddr_un path_name;
int slots[4], before_connect[2], answers[2], closed, sum, answer_sum;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void answered(int to, int index)
{
    char byte;
    slots[index] = index + 1;
    if (send(to, "a", 1, 0) != 1 || recv(to, &byte, 1, 0) != 1)
        fail("answer");
    answer_sum += answers[index - 1];
}

static void *giver(void *unused)
{
    slots[0] = 1;
    struct iovec vector = {"a", 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    if (sendmsg(pair[0], &message, 0) != 1)
        fail("sendmsg");
    before_connect[0] = 10;
    int to = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(to, (struct sockaddr *)&tcp_name, sizeof tcp_name))
        fail("connect");
    answered(to, 1);
    before_connect[1] = 20;
    int near = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(near, (struct sockaddr *)&path_name, sizeof path_name))
        fail("connect");
    answered(near, 2);
    slots[3] = 4;
    int out = socket(AF_INET, SOCK_DGRAM, 0);
    if (sendto(out, "a", 1, 0, (struct sockaddr *)&inbox_name, sizeof inbox_name) != 1)
        fail("sendto");
    closed = 100;
    shutdown(pair[0], SHUT_WR);
    return unused;
}

static void answer(int from, int index)
{
    char byte;
    if (recv(from, &byte, 1, 0) != 1)
        fail("recv");
    sum += slots[index];
    answers[index - 1] = 1000;
    if (send(from, "b", 1, 0) != 1)
        fail("send");
}

static void *taker(void *unused)
{
    char byte;
    if (read(pair[1], &byte, 1) != 1)
        fail("read");
    sum += slots[0];
    int from = accept(tcp, 0, 0);
    sum += before_connect[0];
    answer(from, 1);
    int near = accept(path, 0, 0);
    sum += before_connect[1];
    answer(near, 2);
    if (recvfrom(inbox, &byte, 1, 0, 0, 0) != 1)
        fail("recvfrom");
    sum += slots[3];
    struct pollfd polled = {pair[1], POLLIN | POLLRDHUP, 0};
    do
        poll(&polled, 1, -1);
    while (!(polled.revents & POLLRDHUP));
    sum += closed;
    return unused;
}

static void listen_at_port(int fd, struct sockaddr_in *name)
{
    socklen_t len = sizeof *name;
    name->sin_family = AF_INET;
    name->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, (struct sockaddr *)name, sizeof *name) || getsockname(fd, (struct sockaddr *)name, &len))
        fail("bind");
}

int main(void)
{
    pthread_t a, b;
    char folder[] = "/tmp/memtap-race-XXXXXX";
    tcp = socket(AF_INET, SOCK_STREAM, 0);
    path = socket(AF_UNIX, SOCK_STREAM, 0);
    inbox = socket(AF_INET, SOCK_DGRAM, 0);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || !mkdtemp(folder))
        fail("socketpair");
    listen_at_port(tcp, &tcp_name);
    listen_at_port(inbox, &inbox_name);
    path_name.sun_family = AF_UNIX;
    snprintf(path_name.sun_path, sizeof path_name.sun_path, "%s/socket", folder);
    if (bind(path, (struct sockaddr *)&path_name, sizeof path_name) || listen(path, 1) || listen(tcp, 1))
        fail("listen");
    pthread_create(&a, 0, giver, 0);
    pthread_create(&b, 0, taker, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    unlink(path_name.sun_path);
    rmdir(folder);
    return sum + answer_sum != 2140;
}
