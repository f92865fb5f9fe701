/* Threads at the same time, of which the first goes on until the others are over; a child that ends as a thread does. Each
   says on stdout how often it called. With a number as argument it calls itself so deep. With a file as second one, which
   stands where others want to write, a child or a thread removes that, and has a child. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noipa)) void leaf(void) {}
__attribute__((noipa)) int deep(int depth) { return depth > 1 ? deep(depth - 1) + 1 : 1; }

__attribute__((no_instrument_function)) static void *work(void *count) {
    for (long i = 0; i < (long)count; i++) leaf();
    return NULL;
}

__attribute__((no_instrument_function)) static void *make_room(void *file) {
    work((void *)1);
    unlink(file);
    if (fork() == 0) {
        work((void *)3);
        exit(0);
    }
    wait(NULL);
    return NULL;
}

__attribute__((no_instrument_function)) static int go_on(int way, char *file) {
    pthread_t thread;
    work((void *)1);
    if (way) {
        pthread_create(&thread, NULL, make_room, file);
        pthread_join(thread, NULL);
    } else if (fork() == 0) {
        make_room(file);
        exit(0);
    } else {
        wait(NULL);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 2) return go_on(atoi(argv[1]), argv[2]);
    if (argc > 1) return printf("%d\n", deep(atoi(argv[1]))) < 0;
    pthread_t threads[3];
    leaf();
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], NULL, work, (void *)(1000 * (i + 1)));
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    if (fork() == 0) {
        work((void *)10);
        pthread_exit(NULL);
    }
    wait(NULL);
    leaf();
    puts("6012");
    return 0;
}
