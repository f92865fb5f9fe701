/* The first thread ends, and another one goes on. */
#include <pthread.h>
#include <stddef.h>
#include <unistd.h>

static volatile int sum;

__attribute__((noinline)) void step(int n) { sum += n; }

static void *run(void *argument) {
    (void)argument;
    for (int i = 0; i < 10; i++) {
        usleep(30000);
        for (int n = 0; n < 100; n++) step(n);
    }
    return NULL;
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, NULL) != 0) return 1;
    pthread_exit(NULL);
}
