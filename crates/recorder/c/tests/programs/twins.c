/* A program with two libraries that record, in two threads each: `twins FOLDER` starts both, and says what that gave. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

void work_of_a(uint64_t i), work_of_b(uint64_t i);
int start_a(const char *path), start_b(const char *path), stop_a(void), stop_b(void);

static void *run(void *work) {
    void (*call)(uint64_t);
    *(void **)&call = work;
    for (uint64_t i = 0; i < 10000; i++) call(i);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[4];
    char path[2][4096];
    void (*const works[2])(uint64_t) = {work_of_a, work_of_b};
    if (argc < 2) return 1;
    for (int at = 0; at < 2; at++) snprintf(path[at], sizeof path[at], "%s/%c", argv[1], 'a' + at);
    printf("%d ", start_a(path[0]));
    printf("%d ", start_b(path[1]));
    for (int at = 0; at < 4; at++)
        if (pthread_create(&threads[at], NULL, run, *(void **)&works[at % 2]) != 0) return 2;
    for (int at = 0; at < 4; at++) pthread_join(threads[at], NULL);
    printf("%d ", stop_a());
    printf("%d\n", stop_b());
    return 0;
}
