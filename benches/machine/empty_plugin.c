/* A plugin of QEMU that asks to be called at every block and every access, and does nothing then: what any tracer that is a
 * plugin pays at least. Own declarations; these functions are the same in versions 1 to 4 of the interface. */
#include <stddef.h>
#include <stdint.h>

typedef uint64_t plugin_id;
typedef struct plugin_tb plugin_tb;
typedef struct plugin_insn plugin_insn;

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*called)(plugin_id, plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(plugin_tb *tb, void (*called)(unsigned, void *), int flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(plugin_insn *insn, void (*called)(unsigned, uint32_t, uint64_t, void *), int flags,
                                      int rw, void *data);
size_t qemu_plugin_tb_n_insns(const plugin_tb *tb);
plugin_insn *qemu_plugin_tb_get_insn(const plugin_tb *tb, size_t index);

int qemu_plugin_version = 1;

static void entered(unsigned cpu, void *data)
{
    (void)cpu;
    (void)data;
}

static void accessed(unsigned cpu, uint32_t info, uint64_t address, void *data)
{
    (void)cpu;
    (void)info;
    (void)address;
    (void)data;
}

static void translated(plugin_id id, plugin_tb *tb)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_cb(tb, entered, 0, NULL);
    for (size_t index = 0; index < qemu_plugin_tb_n_insns(tb); index++)
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(tb, index), accessed, 0, 3, NULL);
}

int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
    (void)info;
    (void)argc;
    (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
