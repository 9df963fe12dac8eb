// A library without debug information, whose counter is racy.
// build: -shared -fPIC
// alone: no
long counted;

void count_one(void)
{
    ++*(volatile long *)&counted;
}
