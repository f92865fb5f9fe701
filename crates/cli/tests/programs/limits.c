/* A thread, and a text, with so many descriptors left; then without calls of the system that a sandbox forbids. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((noipa)) size_t length(const char *text) { return strlen(text); }

__attribute__((noipa)) void *work(void *text) { return (void *)length(text); }

static long in_thread(const char *text) {
    pthread_t thread;
    void *result;
    if (pthread_create(&thread, NULL, work, (void *)text)) return -1;
    pthread_join(thread, &result);
    return (long)result;
}

static int forbid(void) {
#define DENY(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        DENY(SYS_perf_event_open), DENY(SYS_process_vm_readv), DENY(SYS_madvise), DENY(SYS_membarrier), DENY(SYS_kill),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv) {
    int next = dup(0);
    close(next);
    struct rlimit limit = {next + atoi(argv[1]), next + atoi(argv[1])};
    if (setrlimit(RLIMIT_NOFILE, &limit)) return 1;
    printf("%ld\n", in_thread("descriptors"));
    if (argc > 2 && forbid()) return 2;
    printf("%zu %ld\n", length("main"), in_thread("sandbox"));
    return 0;
}
