// Threads that begin and end while signals interrupt them all the time.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

#include "probes.h"

static atomic_ulong handled, steps;

static void on_signal(int number) {
    (void)number;
    PROBE(app, handled);
    handled++;
}

static void *thread(void *argument) {
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < 200; i++) {
            PROBE(app, step);
            steps++;
        }
        usleep(300);
    }
    return argument;
}

int main(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    struct itimerval timer = {{0, 30}, {0, 30}};
    setitimer(ITIMER_REAL, &timer, NULL);
    for (int i = 0; i < 500; i++) {
        pthread_t threads[2];
        sigprocmask(SIG_UNBLOCK, &alarm, NULL);
        for (int at = 0; at < 2; at++)
            pthread_create(&threads[at], NULL, thread, NULL);
        sigprocmask(SIG_BLOCK, &alarm, NULL);
        for (int at = 0; at < 2; at++)
            pthread_join(threads[at], NULL);
    }
    printf("app:handled %lu\napp:step %lu\n", handled, steps);
    return 0;
}
