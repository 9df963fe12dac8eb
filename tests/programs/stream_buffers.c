// The buffer of a stream, which the C library allocates at the first fwrite or fread, is a block like any other: it has a
// name, and is known when fclose frees it. Two streams and two buffers; three bytes are read after the fread, two written
// after the fwrite, by this program itself.
// build: -O1
// lackey: no
// translate: no
// stderr: 4 464c 45
// alloc: malloc=4
// alloc: frees=4
// expect: <malloc@_IO_file_doallocate> size=1 loads=3 stores=2
// block: fwrite kind=fetch bytes=4 count=1 src=data
// block: fread kind=fill bytes=1 count=1 dst=data
#include <stdio.h>
#include <unistd.h>

char data[4];

int main(void)
{
    char line[32];
    FILE *out = tmpfile();
    if (!out || fwrite(data, 1, sizeof data, out) != sizeof data)
        return 1;
    putc_unlocked('a', out);
    putc_unlocked('b', out);
    fclose(out);
    FILE *in = fopen("/proc/self/exe", "r");
    if (!in || fread(data, 1, 1, in) != 1)
        return 1;
    int e = getc_unlocked(in), l = getc_unlocked(in), f = getc_unlocked(in);
    fclose(in);
    int len = snprintf(line, sizeof line, "4 %x%x %x\n", f, l, e);
    return write(2, line, len) != len;
}
