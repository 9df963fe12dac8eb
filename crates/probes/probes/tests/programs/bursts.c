// often: three million times, evenly. bursts: a million times, a tenth of the run in each of ten bursts of all there is.
volatile long sink;

__attribute__((noipa)) void often(void) { sink = sink + 1; }
__attribute__((noipa)) void bursts(void) { sink = sink + 1; }
__attribute__((noipa)) void work(int n) {
    for (int i = 0; i < n; i++) sink = sink + i;
}

int main(void) {
    for (int part = 0; part < 10; part++) {
        for (int i = 0; i < 300000; i++) {
            often();
            work(50);
        }
        for (int i = 0; i < 100000; i++) {
            bursts();
            work(50);
        }
    }
    return 0;
}
