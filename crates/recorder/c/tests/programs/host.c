/* A program that knows nothing of recording: a library that it loads brings the recorder, and is unloaded while a thread that
 * has recorded is still there. `host LIBRARY` */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>

static void *library;
static sem_t worked, unloaded;

static void *load(void *name) {
    library = dlopen(name, RTLD_NOW);
    return NULL;
}

static void *record(void *argument) {
    void (*work)(uint64_t);
    *(void **)&work = dlsym(library, "work");
    work(1);
    sem_post(&worked);
    sem_wait(&unloaded);
    return argument;
}

static void *stop(void *argument) {
    int (*end)(void);
    *(void **)&end = dlsym(library, "stop");
    return end() == 0 ? argument : NULL;
}

/* In a thread that ends. */
static int run(void *(*what)(void *), void *argument) {
    pthread_t thread;
    return pthread_create(&thread, NULL, what, argument) != 0 || pthread_join(thread, &argument) != 0 || !argument;
}

int main(int argc, char **argv) {
    pthread_t thread;
    if (argc < 2 || (run(load, argv[1]), !library)) return fprintf(stderr, "%s\n", dlerror()), 1;
    if (sem_init(&worked, 0, 0) != 0 || sem_init(&unloaded, 0, 0) != 0) return 2;
    if (pthread_create(&thread, NULL, record, NULL) != 0) return 3;
    sem_wait(&worked);
    if (run(stop, argv) || dlclose(library) != 0) return 4;
    sem_post(&unloaded);
    return pthread_join(thread, NULL);
}
