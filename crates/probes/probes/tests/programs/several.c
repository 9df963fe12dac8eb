// Functions whose first instruction has one byte. In a program at a low address a punned jump from them would land below zero: `few` gets
// one over three instructions, `calls` one over two of which the second is a call, `calls_by_name` one over such a call by way of memory;
// `entered` jumps to its own second instruction, and `cold_part` is entered from its cold part.
#include <stdio.h>
#include <string.h>

int few(int value);
int entered(int value);
int cold_part(int value);
int calls(int value);
int calls_by_name(int value);

asm(".text\n"
    // value + 1
    ".globl few\n.type few,@function\nfew: push %rbx\n mov %edi, %ebx\n mov %ebx, %eax\n inc %eax\n pop %rbx\n ret\n.size few,.-few\n"
    // what twice(value) says, plus 1
    ".globl calls\n.type calls,@function\ncalls: push %rbx\n call twice\n inc %eax\n pop %rbx\n ret\n.size calls,.-calls\n"
    ".globl calls_by_name\n.type calls_by_name,@function\ncalls_by_name: push %rbx\n call *twice_is(%rip)\n inc %eax\n pop %rbx\n ret\n"
    ".size calls_by_name,.-calls_by_name\n"
    // 3 * value
    ".globl entered\n.type entered,@function\nentered: push %rbx\n1: mov %edi, %ebx\n mov %ebx, %eax\n add %eax, %r8d\n dec %ecx\n jnz 1b\n"
    " mov %r8d, %eax\n pop %rbx\n ret\n.size entered,.-entered\n"
    // 2 * value
    ".globl cold_part\n.type cold_part,@function\ncold_part: push %rbx\n2: mov %edi, %ebx\n mov %ebx, %eax\n dec %ecx\n jnz cold_part.cold\n"
    " add %eax, %eax\n pop %rbx\n ret\n.size cold_part,.-cold_part\n nop\n nop\n nop\n nop\n nop\n"
    ".type cold_part.cold,@function\ncold_part.cold: jmp 2b\n.size cold_part.cold,.-cold_part.cold\n nop\n nop\n nop\n nop\n nop\n");

int twice(int value)
{
    return 2 * value;
}

int (*twice_is)(int) = twice;

static int call(int (*function)(int), int value, int turns)
{
    int result;
    asm volatile("xor %%r8d, %%r8d\n call *%3" : "=a"(result), "+D"(value), "+c"(turns) : "r"(function) : "rbx", "r8", "r9", "r10", "r11", "rdx", "rsi", "cc", "memory");
    return result;
}

static const char *begins(int (*function)(int))
{
    unsigned char first;
    memcpy(&first, (const void *)function, 1);
    return first == 0xe9 ? "jump" : first == 0xcc ? "trap" : "own";
}

int main(void)
{
    long sum = 0;
    for (int i = 0; i < 1000; i++)
        sum += call(few, i, 0) + call(entered, 2, 3) + call(cold_part, 5, 4);
    printf("%ld %s %s %s\n", sum, begins(few), begins(entered), begins(cold_part));
    for (int i = 0; i < 1000; i++)
        sum += call(calls, i, 0) + call(calls_by_name, i, 0);
    printf("%ld %s %s\n", sum, begins(calls), begins(calls_by_name));
}
