// A library is loaded, used and unloaded, twice.
// command: errors
// record: --data
// expect: nothing
// flags: -ldl
#include <dlfcn.h>
#include "../hide.h"

int main(void)
{
    double all = 0;
    for (int i = 0; i < 2; i++) {
        void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
        if (!library)
            return 1;
        double (*cosine)(double) = (double (*)(double))dlsym(library, "cos");
        all += cosine(i);
        dlclose(library);
    }
    return (int)all == 77;
}
