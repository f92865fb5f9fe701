/* Programs that the program becomes and starts in every way that there is, with an environment that it makes itself; one of
   them has a timer that goes on. With a second argument it runs that in a shell. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static volatile sig_atomic_t ticks;

__attribute__((noipa)) int leaf(int number) { return number + 1; }
__attribute__((noipa)) void tick(int signal) { ticks += leaf(signal) > 0; }

/* An ignored signal would stop the timer; one that is blocked waits for the next program. */
static void block(int how) {
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigprocmask(how, &alarm, NULL);
}

static char *own[] = {"OWN=yes", "PATH=/usr/bin:/bin", "LD_PRELOAD=libm.so.6", NULL};

static const char *const ways[] = {"execve", "execv", "execvp", "execvpe", "fexecve", "execl", "execlp", "execle",
                                   "posix_spawn", "posix_spawnp", "vfork", "timer", "setenv", "unsetenv", "_Fork"};
enum { COUNT = sizeof ways / sizeof ways[0] };

static long pages(void) {
    long count = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld", &count) != 1) count = -1;
    if (file) fclose(file);
    return count;
}

static void become(int way, char *self) {
    char number[16], *arguments[] = {self, number, NULL}, path[] = "/proc/self/exe";
    char loaded[4096] = "libm.so.6";
    struct itimerval often = {{0, 200}, {0, 200}};
    pid_t pid;
    long before;
    snprintf(number, sizeof number, "%d", way);
    switch (way) {
    case 1: case 2: case 5: case 6: environ = own;
    }
    switch (way) {
    case 0: execve(path, arguments, own); break;
    case 1: execv(path, arguments); break;
    case 2: execvp(path, arguments); break;
    case 3: execvpe(path, arguments, own); break;
    case 4: fexecve(open(path, O_RDONLY), arguments, own); break;
    case 5: execl(path, self, number, (char *)NULL); break;
    case 6: execlp(path, self, number, (char *)NULL); break;
    case 7: execle(path, self, number, (char *)NULL, own); break;
    case 8: if (!posix_spawn(&pid, path, NULL, NULL, arguments, own)) waitpid(pid, NULL, 0); exit(0);
    case 9: if (!posix_spawnp(&pid, path, NULL, NULL, arguments, own)) waitpid(pid, NULL, 0); exit(0);
    case 10:
        for (int i = 0; i < 2; i++) {
            if ((pid = vfork()) == 0) {
                execve(i ? path : "/nowhere", arguments, own);
                _exit(1);
            }
            waitpid(pid, NULL, 0);
        }
        before = pages();
        for (int i = 0; i < 40; i++) {
            if ((pid = vfork()) == 0) {
                execve(i % 2 ? "/bin/true" : "/nowhere", arguments, own);
                _exit(1);
            }
            waitpid(pid, NULL, 0);
        }
        if (pages() > before + 8) printf("%ld pages are left of %s\n", pages() - before, ways[way]);
        exit(0);
    case 11:
        block(SIG_BLOCK);
        setitimer(ITIMER_REAL, &often, NULL);
        execve(path, arguments, own);
        break;
    case 13:
        snprintf(loaded, sizeof loaded, "%s:libm.so.6", getenv("LD_PRELOAD"));
        unsetenv("TRACEMILL_CALLS");
        /* Fall through. */
    case 12:
        setenv("OWN", "yes", 1);
        setenv("LD_PRELOAD", loaded, 1);
        execv(path, arguments);
        break;
    case 14:
        /* A child that the C library does not know of goes on in the ring of its parent. */
        if ((pid = syscall(SYS_fork)) == 0) {
            execve(path, arguments, own);
            _exit(1);
        }
        waitpid(pid, NULL, 0);
        /* Long enough for the recorder to take what it thinks is whole. */
        usleep(50000);
        exit(leaf(-1));
    }
    perror(ways[way]);
    exit(1);
}

int main(int argc, char **argv) {
    if (argc > 2) return system(argv[2]);
    if (argc > 1) {
        int way = atoi(argv[1]);
        const char *mine = getenv("OWN"), *loaded = getenv("LD_PRELOAD");
        if (way == 11) {
            signal(SIGALRM, tick);
            block(SIG_UNBLOCK);
            while (ticks < 20) pause();
            block(SIG_BLOCK);
        }
        /* Only what the recorder adds does not count, once. */
        const char *first = loaded ? strstr(loaded, "libtracemill_calls.so:") : NULL;
        printf("%s %d %s %s\n", ways[way], leaf(way), mine, first ? first + 22 : loaded ? loaded : "none");
        return 0;
    }
    for (int way = 0; way < COUNT; way++) {
        pid_t pid = fork();
        if (pid == 0) become(way, argv[0]);
        waitpid(pid, NULL, 0);
    }
    return 0;
}
