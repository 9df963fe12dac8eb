// fread and fwrite are one event each; what the library does in its own buffers belongs to the library.
// lackey: no
// translate: no
// block: fwrite kind=fetch bytes=1000 count=10 src=data
// block: fread kind=fill bytes=1000 count=10 dst=data
// stderr: 10000 1
#include <stdio.h>

char data[1000];

int main(void)
{
    FILE *file = tmpfile();
    long total = 0;
    int same = 1;
    if (!file)
        return 1;
    for (int i = 0; i < 10; i++) {
        data[i] = i + 1;
        total += fwrite(data, 1, sizeof data, file);
    }
    rewind(file);
    for (int i = 0; i < 10; i++) {
        if (fread(data, 1, sizeof data, file) != sizeof data)
            return 1;
        same &= data[i] == i + 1;
    }
    fprintf(stderr, "%ld %d\n", total, same);
    fclose(file);
    return 0;
}
