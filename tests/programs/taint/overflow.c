// A name that came over a socket is copied without a look at its length: its last bytes become a function pointer.
// build: -fno-inline
// stdout: granted
// sink: jump|main|recv|16
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct session {
    char name[16];
    void (*handler)(void);
};

static void granted(void)
{
    puts("granted");
}

static void denied(void)
{
    puts("denied");
}

struct session session = {"", denied};

/* One byte at a time, through a register. */
static void copy(char *to, const char *from, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = from[i];
}

int main(void)
{
    int pair[2];
    char packet[64] = "sixteen letters!", received[64];
    void (*wanted)(void) = granted;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
        return 1;
    memcpy(packet + 16, &wanted, sizeof wanted);
    if (send(pair[0], packet, 24, 0) != 24)
        return 1;
    int bytes = recv(pair[1], received, sizeof received, 0); // SOURCE
    copy(session.name, received, bytes);
    session.handler(); // SINK
    return 0;
}
