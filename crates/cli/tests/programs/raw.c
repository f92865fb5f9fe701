// A child by the call of the system alone, which the C library does not know of; parent and child call at the same time.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long total;
void parents(long n) { total += n; }
void childs(long n) { total += n; }
void grandchilds(long n) { total += n; }

__attribute__((no_instrument_function)) static pid_t copy(void) { return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }

__attribute__((no_instrument_function)) static int ended(pid_t pid) {
    int status;
    return waitpid(pid, &status, 0) == pid && status == 0;
}

int work(long calls) {
    int ends[2];
    char byte = 1;
    if (pipe(ends)) return 1;
    parents(1);
    pid_t pid = copy();
    if (pid == 0) {
        // The parent is ahead in the ring by now.
        if (read(ends[0], &byte, 1) != 1) exit(2);
        for (long i = 0; i < calls; i++) childs(i);
        pid = copy();
        if (pid == 0) {
            grandchilds(2);
            exit(0);
        }
        childs(3);
        exit(ended(pid) ? 0 : 3);
    }
    for (long i = 0; i < calls; i++) parents(i);
    if (write(ends[1], &byte, 1) != 1) return 4;
    for (long i = 0; i < calls; i++) parents(i);
    return ended(pid) ? 0 : 5;
}

int main(int argc, char **argv) {
    (void)argv;
    return work(argc > 1 ? 20000 : 100);
}
