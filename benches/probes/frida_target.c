/* The process that frida_attach.py probes: a function, what calls it, and the clock. It ends with its standard input. */
#include "ticks.h"

__attribute__((noipa)) void probed(void) { __asm__ volatile("nop; nop; nop; nop; nop; nop; nop; nop"); }

static pthread_t other;
double now(void) { return (double)ticks(); }
double calls_of_probed(int count) { return calls(count); }
void begin_calling(void) {
    stop_caller = 0;
    pthread_create(&other, NULL, caller, NULL);
}
void end_calling(void) {
    stop_caller = 1;
    pthread_join(other, NULL);
}

int main(void) {
    while (getchar() != EOF) {
    }
    return 0;
}
