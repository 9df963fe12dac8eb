// Ordinary compiled code on static data: sorting, matrix product, digest, hash table, strings, bit sets, floating point.
// Each is compared with Lackey access by access, at several levels of optimisation.
// build: -fno-tree-loop-distribute-patterns
// stdout: 1 19d561e7 4950 95 168 1340
#include <stdint.h>
#include <stdio.h>

static int numbers[200];
static double left[12][12], right[12][12], product[12][12];
static uint32_t state[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476}, words[64];
static struct entry { int key, value; struct entry *next; } entries[100], *buckets[16];
static char sentence[256] = "the quick brown fox jumps over the lazy dog and runs away from it";
static uint8_t sieve[128];
static float signal[64], filtered[64];

static void sort(int low, int high)
{
    while (low < high) {
        int pivot = numbers[(low + high) / 2], i = low, j = high;
        while (i <= j) {
            while (numbers[i] < pivot)
                i++;
            while (numbers[j] > pivot)
                j--;
            if (i <= j) {
                int kept = numbers[i];
                numbers[i++] = numbers[j];
                numbers[j--] = kept;
            }
        }
        sort(low, j);
        low = i;
    }
}

static int sorted(void)
{
    uint32_t seed = 1;
    for (int i = 0; i < 200; i++)
        numbers[i] = (seed = seed * 1103515245 + 12345) >> 16;
    sort(0, 199);
    for (int i = 1; i < 200; i++)
        if (numbers[i - 1] > numbers[i])
            return 0;
    return 1;
}

static uint32_t digest(void)
{
    for (int i = 0; i < 64; i++)
        words[i] = i * 0x9e3779b9u;
    for (int i = 0; i < 64; i++) {
        uint32_t mixed = (state[1] & state[2]) | (~state[1] & state[3]);
        uint32_t turned = state[0] + mixed + words[i];
        state[0] = state[3];
        state[3] = state[2];
        state[2] = state[1];
        state[1] += turned << 7 | turned >> 25;
    }
    return state[0] ^ state[1] ^ state[2] ^ state[3];
}

static int look_up(void)
{
    int sum = 0;
    for (int i = 0; i < 100; i++) {
        entries[i].key = i * 7;
        entries[i].value = i;
        entries[i].next = buckets[i * 7 % 16];
        buckets[i * 7 % 16] = &entries[i];
    }
    for (int i = 0; i < 100; i++)
        for (struct entry *e = buckets[i * 7 % 16]; e; e = e->next)
            if (e->key == i * 7)
                sum += e->value;
    return sum;
}

static int multiply(void)
{
    double trace = 0;
    for (int i = 0; i < 12; i++)
        for (int j = 0; j < 12; j++) {
            left[i][j] = i + j;
            right[i][j] = i == j ? 1 : 0.25;
            product[i][j] = 0;
        }
    for (int i = 0; i < 12; i++)
        for (int j = 0; j < 12; j++)
            for (int k = 0; k < 12; k++)
                product[i][j] += left[i][k] * right[k][j];
    for (int i = 0; i < 12; i++)
        trace += product[i][i];
    return (int)trace % 100;
}

static int primes(void)
{
    int found = 0;
    for (int i = 2; i < 1000; i++)
        if (!(sieve[i / 8] >> i % 8 & 1)) {
            found++;
            for (int j = 2 * i; j < 1000; j += i)
                sieve[j / 8] |= 1 << j % 8;
        }
    return found;
}

static int letters(void)
{
    int sum = 0;
    for (int i = 0; sentence[i]; i++) {
        if (sentence[i] == ' ')
            sentence[i] = '_';
        sum += sentence[i] & 31;
    }
    for (int i = 0; i < 64; i++)
        signal[i] = i % 9;
    for (int i = 2; i < 62; i++)
        filtered[i] = (signal[i - 2] + signal[i - 1] * 2 + signal[i] * 3 + signal[i + 1] * 2 + signal[i + 2]) / 9;
    for (int i = 0; i < 64; i++)
        sum += (int)filtered[i];
    return sum;
}

int main(void)
{
    int a = sorted();
    uint32_t b = digest();
    int c = look_up(), d = multiply(), e = primes(), f = letters();
    printf("%d %x %d %d %d %d\n", a, b, c, d, e, f);
    return 0;
}
