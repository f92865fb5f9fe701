/* Calls before and after a thread enters seccomp's strict mode, by the C library or by the number of the call; in a filter that
   kills for a new file. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((noipa)) int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

static int kill_for_files(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv) {
    int n = atoi(argv[1]);
    fib(10);
    if (argc > 2 && !strcmp(argv[2], "fails")) {
        /* Arguments that the kernel refuses: nothing changes. */
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, 0) != -1) return 2;
        fib(n);
        return 0;
    }
    if (argc > 2 && !strcmp(argv[2], "filter")) {
        if (kill_for_files()) return 3;
        if (fork() == 0) fib(n);
        usleep(100000);
        return 0;
    }
    if (argc > 2 ? syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, 0) : prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) return 4;
    fib(n);
    write(1, "done\n", 5);
    syscall(SYS_exit, 0);
}
