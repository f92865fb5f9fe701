/* Threads that return, exit and are cancelled, many of them; signal handlers; a child; another program. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long handled;
long leaf(long n) { return n + 1; }
long work(long n) { long s = 0; for (long i = 0; i < n; i++) s += leaf(i); return s; }
void on_signal(int signal) { (void)signal; handled += leaf(0); }
void leave(long n) { if (n == 0) pthread_exit((void *)7); leave(n - 1); }
void *run(void *argument) {
    long n = (long)argument;
    if (n % 3 == 1) leave(n % 5);
    if (n % 3 == 2) { for (;;) { work(3); pthread_testcancel(); } }
    return (void *)work(n);
}
int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "second")) { printf("second %ld\n", work(10)); return 4; }
    struct itimerval timer = { { 0, 200 }, { 0, 200 } };
    signal(SIGALRM, on_signal);
    setitimer(ITIMER_REAL, &timer, NULL);
    long sum = 0;
    for (long i = 0; i < 60; i++) {
        pthread_t thread;
        void *result;
        if (pthread_create(&thread, NULL, run, (void *)i)) return 1;
        if (i % 3 == 2) pthread_cancel(thread);
        pthread_join(thread, &result);
        sum += i % 3 == 2 ? result == PTHREAD_CANCELED : (long)result;
    }
    sum += work(200000);
    while (handled == 0) work(1000);
    memset(&timer, 0, sizeof timer);
    setitimer(ITIMER_REAL, &timer, NULL);
    printf("%ld %d\n", sum, handled > 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) { printf("child %ld\n", work(20)); fflush(stdout); _exit((int)leaf(1)); }
    int status;
    waitpid(child, &status, 0);
    printf("status %d\n", WEXITSTATUS(status));
    fflush(stdout);
    /* The profiler of -pg has a timer, which outlives exec, while the handler of its signal does not: the signal ends the
       next program when it comes before that has a handler of its own. */
    setitimer(ITIMER_PROF, &timer, NULL);
    execl("/proc/self/exe", argv[0], "second", (char *)NULL);
    return 1;
}
