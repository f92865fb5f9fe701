/* Programs that record in difficult places: `work KIND FOLDER [MODE]`. What was tried and discarded goes to stdout. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <tracemill/record.h>
#include <unistd.h>

TM_EVENT(t, tick, (tm_u64, i))
TM_EVENT(t, signal, (tm_u64, i))
TM_EVENT(t, outside, (tm_u64, i))
TM_EVENT(t, raw, (tm_text, text))

static char folder[4096];

static const char *in_folder(const char *name) {
    static char path[8192];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void start(const char *mode, uint64_t bytes) {
    const tm_options options = {
        .path = in_folder("t"),
        .mode = strcmp(mode, "flight") == 0 ? TM_FLIGHT : strcmp(mode, "block") == 0 ? TM_BLOCK : TM_STREAM,
        .ring_bytes = bytes,
        .packet_bytes = 4096,
        .flush_ms = 2,
    };
    const int status = tm_start(&options);
    if (status != 0) {
        fprintf(stderr, "%s: %s\n", options.path, strerror(-status));
        exit(1);
    }
}

static void stop(uint64_t tried) {
    if (tm_stop() != 0) exit(2);
    printf("%llu %llu\n", (unsigned long long)tried, (unsigned long long)tm_discarded());
}

static void *write_many(void *number) {
    for (uint64_t i = 0; i < 20000; i++) tm_t_tick(i * 4 + (uint64_t)(uintptr_t)number);
    return NULL;
}

/* Four threads, three times. */
static void threads(const char *mode) {
    start(mode, 64 << 10);
    for (int round = 0; round < 3; round++) {
        pthread_t all[4];
        for (uintptr_t at = 0; at < 4; at++) pthread_create(&all[at], NULL, write_many, (void *)at);
        for (int at = 0; at < 4; at++) pthread_join(all[at], NULL);
    }
    stop(240000);
}

static uint64_t signals;

static void on_signal(int number) {
    (void)number;
    for (int i = 0; i < 3; i++) tm_t_signal(__atomic_fetch_add(&signals, 1, __ATOMIC_RELAXED));
}

static void interrupted(const char *mode) {
    start(mode, strcmp(mode, "flight") == 0 ? 64 << 20 : 64 << 10);
    on_signal(0);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, NULL);
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGUSR1;
    timer_t timer;
    const struct itimerspec every = {{0, 20000}, {0, 20000}};
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &every, NULL) != 0) exit(8);
    /* Until there was a signal, however quick the machine is. */
    uint64_t ticks = 0;
    while (ticks < 400000 || __atomic_load_n(&signals, __ATOMIC_RELAXED) == 3) tm_t_tick(ticks++);
    timer_delete(timer);
    stop(ticks + signals);
}

/* Until it is killed: the counter is bumped after each event. */
static void killed(const char *mode) {
    const int file = open(in_folder("counter"), O_RDWR);
    uint64_t *counter = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (counter == MAP_FAILED) exit(3);
    start(mode, strcmp(mode, "flight") == 0 ? 4 << 20 : 64 << 10);
    for (uint64_t i = 0;; i++) {
        tm_t_tick(i);
        __atomic_store_n(counter, i + 1, __ATOMIC_RELEASE);
    }
}

/* The child of a fork records when it should; that of a vfork writes for its parent. */
static void forked(const char *mode) {
    const tm_options options = {.path = in_folder("t"), .follow_fork = strcmp(mode, "follow") == 0};
    if (tm_start(&options) != 0) exit(1);
    tm_t_tick(1);
    const pid_t child = fork();
    if (child == 0) {
        tm_t_tick(2);
        exit(0);
    }
    waitpid(child, NULL, 0);
    const pid_t other = vfork();
    if (other == 0) {
        tm_t_tick(3);
        _exit(0);
    }
    waitpid(other, NULL, 0);
    tm_t_tick(4);
    stop(3);
}

static void *write_one(void *number) {
    tm_t_tick((uint64_t)(uintptr_t)number);
    return NULL;
}

static void *write_and_exit(void *number) {
    tm_t_tick((uint64_t)(uintptr_t)number);
    pthread_exit(NULL);
}

static void *write_until_cancelled(void *number) {
    for (;;) {
        tm_t_outside((uint64_t)(uintptr_t)number);
        usleep(10);
    }
    return NULL;
}

/* Many short threads, threads that end by themselves, threads that are cancelled. */
static void many_threads(const char *mode) {
    start(mode, 64 << 10);
    for (uintptr_t i = 0; i < 10000; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, i % 2 == 0 ? write_one : write_and_exit, (void *)i) != 0) exit(4);
        pthread_join(thread, NULL);
    }
    for (uintptr_t i = 0; i < 200; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, write_until_cancelled, (void *)i) != 0) exit(4);
        if (i % 3 != 0) usleep(50);
        pthread_cancel(thread);
        pthread_join(thread, NULL);
    }
    stop(10000);
}

/* A library that comes and goes, and whose constructor and destructor record. */
static void unloaded(const char *mode) {
    start(mode, 1 << 20);
    for (uint64_t i = 0; i < 50; i++) {
        void *library = dlopen(in_folder("plugin.so"), RTLD_NOW);
        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            exit(5);
        }
        void (*work)(uint64_t);
        *(void **)&work = dlsym(library, "work");
        work(i);
        dlclose(library);
        tm_t_tick(i);
    }
    /* Into a folder that is there it does not go. */
    if (tm_rotate(folder) != -EEXIST) exit(10);
    if (tm_rotate(in_folder("u")) != 0) exit(6);
    tm_t_tick(50);
    stop(200);
}

static void snapshots(const char *mode) {
    start(mode, 64 << 10);
    tm_t_tick(0);
    if (tm_snapshot(in_folder("copy")) != 0) exit(7);
    tm_t_tick(1);
    stop(2);
}

/* Bytes that are no text are cut where the limit is. */
static void raw(const char *mode) {
    static unsigned char bytes[5000];
    const tm_options options = {.path = in_folder("t")};
    (void)mode;
    memset(bytes, 0x80, sizeof bytes);
    if (tm_start(&options) != 0) exit(1);
    tm_t_raw(tm_text(bytes, sizeof bytes));
    stop(1);
}

int main(int argc, char **argv) {
    if (argc < 4) return 9;
    snprintf(folder, sizeof folder, "%s", argv[2]);
    static const struct {
        const char *name;
        void (*run)(const char *mode);
    } kinds[] = {{"threads", threads},  {"interrupted", interrupted}, {"killed", killed},      {"forked", forked},
                 {"many", many_threads}, {"unloaded", unloaded},       {"snapshots", snapshots}, {"raw", raw}};
    for (size_t at = 0; at < sizeof kinds / sizeof *kinds; at++) {
        if (strcmp(argv[1], kinds[at].name) == 0) return kinds[at].run(argv[3]), 0;
    }
    /* By the environment. */
    tm_t_tick(11);
    return 0;
}
