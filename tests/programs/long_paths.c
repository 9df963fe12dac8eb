// The same again and again, until it is one path through calls and returns; then something else, in each way in which a path is left.
// translate: only
// lackey: no
// build: -O1 -fno-inline -fno-optimize-sibling-calls
// expect: counter size=4 loads=240101 stores=240100
// expect: other size=4 loads=40001 stores=40000
// expect: deep size=4 loads=120001 stores=120000
// expect: thrown size=4 loads=101 stores=100
// stdout: 240100 40000 120000 100
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include "access.h"

#define TURNS 160000

int counter, other, deep, thrown;
static volatile int ticks;
static jmp_buf back;

static void add(int *to)
{
    STORE(*to, LOAD(*to) + 1);
}

static void one(void)
{
    add(&counter);
}

static void another(void)
{
    add(&other);
}

static void dive(int depth)
{
    if (depth > 0)
        dive(depth - 1);
    else
        add(&deep);
}

static void leave(void)
{
    add(&thrown);
    longjmp(back, 1);
}

static void on_alarm(int signal)
{
    (void)signal;
    ticks++;
}

/// What is called by the pointer changes after half of the turns, and is another one at each fourth from then on.
static void turn(int number)
{
    void (*step)(void) = number >= TURNS / 2 && number % 2 ? another : one;
    step();
    if (number % 4 == 3)
        dive(number < TURNS / 2 ? 2 : number % 7), add(&deep), add(&deep);
    else
        one();
}

int main(void)
{
    struct itimerval each = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &each, 0);
    for (int number = 0; number < TURNS; number++) {
        turn(number);
        if (number % 1600 == 7 && !setjmp(back)) {
            one();
            leave();
        }
    }
    setitimer(ITIMER_REAL, &never, 0);
    printf("%d %d %d %d\n", counter, other, deep, thrown);
    return 0;
}
