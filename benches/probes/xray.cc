// LLVM's XRay with its own runtime: one function's sleds switched on and off. clang++ -fxray-instrument.
#include "ticks.h"
#include <xray/xray_interface.h>

extern "C" [[clang::xray_always_instrument]] __attribute__((noinline)) void probed(void) { __asm__ volatile(""); }

static int32_t id = -1;
[[clang::xray_never_instrument]] static void handler(int32_t, XRayEntryType) {}
[[clang::xray_never_instrument]] static int on() { return __xray_patch_function(id) != SUCCESS; }
[[clang::xray_never_instrument]] static int off() { return __xray_unpatch_function(id) != SUCCESS; }

[[clang::xray_never_instrument]] int main() {
    __xray_set_handler(handler);
    for (int32_t i = 1; i <= (int32_t)__xray_max_function_id(); i++)
        if (__xray_function_address(i) == (uintptr_t)probed) id = i;
    if (id < 0) return 1;
    measure("XRay, entry and exit of one function", 300, on, off);
}
