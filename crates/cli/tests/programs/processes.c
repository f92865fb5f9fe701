/* Constructors and destructors that call, short threads, handlers on a stack of their own that jump away, contexts, children
   of fork, vfork and posix_spawn, a shell. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
extern char **environ;
static volatile long total;
long leaf(long n) { return n + 1; }
__attribute__((constructor)) void before(void) { total += leaf(1); }
__attribute__((destructor)) void after(void) { printf("after %ld\n", leaf(2)); }
void at_exit(void) { total += leaf(3); }
void *shortlived(void *p) { return (void *)leaf((long)p); }
void *deep(void *p) { return (long)p == 0 ? 0 : deep((void *)((long)p - 1)); }
static sigjmp_buf jump;
void on_segv(int s) { (void)s; leaf(4); siglongjmp(jump, 1); }
__attribute__((noipa)) void crash(volatile int *p) { leaf(5); *p = 1; }
static char alt[65536];
static ucontext_t here, there;
void context(void) { leaf(6); swapcontext(&there, &here); leaf(7); }
int child(const char *name) { printf("%s %ld\n", name, leaf(8)); fflush(stdout); return 9; }
void ended(pid_t pid) {
    int status;
    waitpid(pid, &status, 0);
    printf("%d\n", WEXITSTATUS(status));
    fflush(stdout);
}
int main(int argc, char **argv) {
    if (argc > 1) return child(argv[1]);
    atexit(at_exit);
    for (long i = 0; i < 100; i++) {
        pthread_t thread;
        void *result;
        if (pthread_create(&thread, NULL, shortlived, (void *)i)) return 1;
        pthread_join(thread, &result);
        total += (long)result;
    }
    pthread_t all[20];
    for (long i = 0; i < 20; i++) pthread_create(&all[i], NULL, deep, (void *)(i * 20));
    for (int i = 0; i < 20; i++) pthread_join(all[i], NULL);
    stack_t st = {.ss_sp = alt, .ss_size = sizeof alt};
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = on_segv;
    sa.sa_flags = SA_ONSTACK | SA_NODEFER;
    sigaltstack(&st, NULL);
    sigaction(SIGSEGV, &sa, NULL);
    for (int i = 0; i < 20; i++) {
        if (!sigsetjmp(jump, 1)) crash(0);
        else total++;
    }
    static char stack[65536];
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = sizeof stack;
    there.uc_link = &here;
    makecontext(&there, context, 0);
    swapcontext(&here, &there);
    leaf(10);
    swapcontext(&here, &there);
    pid_t pid = vfork();
    if (pid == 0) {
        execl("/proc/self/exe", argv[0], "vforked", (char *)NULL);
        _exit(1);
    }
    ended(pid);
    char *args[] = {argv[0], "spawned", NULL};
    if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, args, environ)) return 1;
    ended(pid);
    if ((pid = fork()) == 0) {
        leaf(11);
        if (fork() == 0) {
            leaf(12);
            exit(0);
        }
        wait(NULL);
        exit(3);
    }
    ended(pid);
    if (system("exit 5") != 5 << 8) return 1;
    printf("%ld\n", total);
    return 6;
}
