// A module that is loaded and unloaded while its probes are switched.
volatile long sink;

__attribute__((noipa)) void plugged(void) { sink = sink + 1; }
