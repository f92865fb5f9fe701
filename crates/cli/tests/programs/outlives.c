/* A process that is made in every way that there is, goes on when the first one has ended, and only then calls for the first
   time. With a second argument it is the program that such a process became. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
extern char **environ;

__attribute__((noipa)) int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

#define PLAIN __attribute__((no_instrument_function)) static

PLAIN void close_all(void) {
    for (int i = 0; i < 1024; i++) close(i);
}

/* 1973 calls, when nothing is left of whoever made this process. */
PLAIN void late(void) {
    usleep(30000);
    fib(15);
}

PLAIN void become(char *self) {
    char *arguments[] = {self, "late", "late", NULL};
    execve("/proc/self/exe", arguments, environ);
    _exit(1);
}

PLAIN long raw(unsigned long flags) { return syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0); }

static int as_clone(void *unused) {
    (void)unused;
    late();
    return 0;
}

PLAIN int start(const char *way, char *self) {
    static char stack[65536];
    char *arguments[] = {self, "late", "late", NULL};
    pid_t pid;
    if (!strcmp(way, "fork")) { if (!fork()) { late(); _exit(0); } }
    else if (!strcmp(way, "raw")) { if (!raw(0)) { late(); _exit(0); } }
    else if (!strcmp(way, "raw-exec")) { if (!raw(0)) { usleep(20000); become(self); } }
    else if (!strcmp(way, "sibling")) { if (!raw(CLONE_PARENT)) { late(); _exit(0); } }
    else if (!strcmp(way, "clone")) return clone(as_clone, stack + sizeof stack, SIGCHLD, NULL) < 0;
    else if (!strcmp(way, "vfork")) { if (!vfork()) become(self); }
    else if (!strcmp(way, "spawn")) return posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ);
    else if (!strcmp(way, "bare-exec")) {
        if (!raw(0)) { usleep(20000); syscall(SYS_execve, "/proc/self/exe", arguments, environ); _exit(1); }
    }
    else if (!strcmp(way, "daemon")) {
        if (!fork()) {
            setsid();
            if (fork()) _exit(0);
            close_all();
            late();
            _exit(0);
        }
    }
    else if (!strcmp(way, "shell")) {
        if (!fork()) {
            execl("/bin/sh", "sh", "-c", "(sleep 0.05; exec \"$0\" late late) &", self, (char *)NULL);
            _exit(1);
        }
    }
    else if (!strcmp(way, "chain")) {
        for (int i = 0; i < 20; i++) if (raw(0)) _exit(0);
        late();
    }
    else if (!strcmp(way, "closed")) { close_all(); if (!raw(0)) { late(); _exit(0); } }
    else if (!strcmp(way, "forever")) { if (!fork()) { setsid(); close_all(); alarm(100); for (;;) { fib(3); usleep(1000); } } }
    else return 1;
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 2) {
        late();
        return 0;
    }
    return argc > 1 ? start(argv[1], argv[0]) : 2;
}
