/* Functions that cannot be patched, each for a reason of its own, and one that can. */
#include <stdio.h>

int shorter(void), looped(int), entered(int), unknown(void), caller(void *), usual(int);
__asm__(".text\n"
        ".macro function name\n.globl \\name\n.type \\name, @function\n\\name:\n.endm\n"
        ".macro ends name\n.size \\name, . - \\name\n.endm\n"
        /* The next one begins where it ends. */
        "function shorter\npush $7\npop %rax\nret\nends shorter\n"
        "function looped\ndec %edi\nxor %eax, %eax\nnop\ntest %edi, %edi\njnz looped\nret\nends looped\n"
        "function entered\nmov %edi, %eax\n1: dec %eax\nnop\nnop\ntest %eax, %eax\njnz 1b\nret\nends entered\n"
        "function unknown\npush %rbp\npush %rbp\nlea 3(%rdi), %eax\npop %rbp\npop %rbp\nret\n.byte 6\nends unknown\n"
        "function caller\nmov (%rsp), %rax\ncmp $0, %rax\nsetne %al\nmovzbl %al, %eax\nret\nends caller\n"
        "function fixed\nint3\nnop\nnop\nnop\nnop\nret\nends fixed\n");

__attribute__((noinline)) int usual(int x) { return printf("%d\n", x); }

int main(void) {
    printf("%d %d %d %d\n", shorter(), looped(3), entered(3), caller(0));
    unknown();
    return usual(3) - 2;
}
