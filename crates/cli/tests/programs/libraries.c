/* Calls to libraries, also those that do not simply return. What is printed is the same without the recorder.
   Arguments: nothing, or one of `jump`, `vfork`, `fork`, `threads`, `versions`, `context`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static int smaller(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

__attribute__((noinline)) static void plain(void) {
    int list[3] = {3, 1, 2};
    qsort(list, 3, sizeof *list, smaller);
    char *text = strdup("abc");
    printf("%d %d\n", list[0], (int)strlen(text));
    free(text);
}

static jmp_buf point;
static sigjmp_buf other;

__attribute__((noinline)) static void inner(int n) {
    if (n == 0) longjmp(point, 7);
    inner(n - 1);
    puts("never");
}

__attribute__((noinline)) static int outer(int n) {
    int value = setjmp(point);
    if (value == 0) inner(n);
    puts("back");
    return value;
}

__attribute__((noinline)) static void jump(void) {
    for (int n = 0; n < 3; n++) printf("%d\n", outer(n));
    if (sigsetjmp(other, 1) == 0) siglongjmp(other, 1);
    puts("end");
}

__attribute__((noinline)) static void as_vfork(void) {
    for (int n = 0; n < 3; n++) {
        pid_t child = vfork();
        if (child == 0) {
            if (n == 1) execl("/bin/true", "true", (char *)NULL);
            _exit(n);
        }
        int status = 0;
        printf("%d ", waitpid(child, &status, 0) == child);
        printf("%d\n", WEXITSTATUS(status));
    }
}

__attribute__((noinline)) static void as_fork(void) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        puts("child");
        exit(3);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("%d\n", WEXITSTATUS(status));
}

#define THREADS 8
static pthread_barrier_t all;

static void *work(void *unused) {
    /* All of them bind it for the first time at once. */
    pthread_barrier_wait(&all);
    for (volatile int n = 0; n < 1000; n++) rand_r(&(unsigned){n});
    return unused;
}

static void *leaves(void *unused) {
    pthread_exit(unused);
}

__attribute__((noinline)) static void threads(void) {
    pthread_t list[THREADS], last;
    pthread_barrier_init(&all, NULL, THREADS);
    for (int n = 0; n < THREADS; n++) pthread_create(&list[n], NULL, work, NULL);
    for (int n = 0; n < THREADS; n++) pthread_join(list[n], NULL);
    pthread_create(&last, NULL, leaves, NULL);
    pthread_join(last, NULL);
    puts("joined");
}

/* The first version of `realpath` refuses to make the text itself. */
char *old_realpath(const char *path, char *text);
__asm__(".symver old_realpath, realpath@GLIBC_2.2.5");

__attribute__((noinline)) static void versions(void) {
    char *text = realpath("/", NULL), *none = old_realpath("/", NULL);
    printf("%s %d\n", text, none != NULL);
    free(text);
    /* Who calls decides what is found. */
    char *(*next)(const char *) = (char *(*)(const char *))dlsym(RTLD_NEXT, "strdup");
    printf("%d\n", next != NULL && dlsym(RTLD_DEFAULT, "main_of_nothing") == NULL);
}

static ucontext_t first, second;
static char room[65536];

static void other_stack(void) {
    puts("second");
    swapcontext(&second, &first);
    puts("second again");
    swapcontext(&second, &first);
}

__attribute__((noinline)) static void context(void) {
    getcontext(&second);
    second.uc_stack.ss_sp = room;
    second.uc_stack.ss_size = sizeof room;
    second.uc_link = &first;
    makecontext(&second, other_stack, 0);
    swapcontext(&first, &second);
    puts("first");
    swapcontext(&first, &second);
    puts("end");
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    plain();
    if (!strcmp(what, "jump")) jump();
    if (!strcmp(what, "vfork")) as_vfork();
    if (!strcmp(what, "fork")) as_fork();
    if (!strcmp(what, "threads")) threads();
    if (!strcmp(what, "versions")) versions();
    if (!strcmp(what, "context")) context();
    return 3;
}
