// Reports what it does by probes, and counts for itself how often it comes to each.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probes.h"

SEMAPHORE(asked_semaphore);

static atomic_ulong begins, steps, traps, asks, handled, blocked, plugged, own;

static void fail(const char *what) {
    printf("%s\n", what);
    exit(1);
}

__attribute__((noinline)) static int part(int n) {
    PROBE(app, begin);
    begins++;
    int sum = 0;
    for (int i = 0; i < n; i++) {
        sum += i;
        PROBE_OF(app, step, i);
        steps++;
    }
    if (asked_semaphore) {
        PROBE_ASKED(app, asked, asked_semaphore);
        asks++;
    }
    PROBE_TRAPPED(app, trapped);
    traps++;
    return sum;
}

// Registers, flags and what stands below the stack are the program's.
__attribute__((noinline)) static void keep(void) {
    static const double values[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                      16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
    double after[32];
    unsigned long integers[8], red = 0;
    unsigned char is_less = 0, is_carry = 0;
#define LOAD(n) "movupd " TEXT(n) "*16(%[values]), %%xmm" TEXT(n) "\n"
#define STORE(n) "movupd %%xmm" TEXT(n) ", " TEXT(n) "*16(%[after])\n"
#define ALL(of) of(0) of(1) of(2) of(3) of(4) of(5) of(6) of(7) of(8) of(9) of(10) of(11) of(12) of(13) of(14) of(15)
#define KEEP(probe)                                                                               \
    __asm__ volatile(ALL(LOAD) "movq $0x1234567, -8(%%rsp)\n"                                     \
                               "movq $0x7654321, -128(%%rsp)\n"                                   \
                               "mov $11, %%r8\nmov $12, %%r9\nmov $13, %%r10\nmov $14, %%r11\n"   \
                               "mov $15, %%rax\nmov $16, %%rcx\nmov $17, %%rdx\n"                 \
                               "cmp $18, %%rdx\n" probe "setl %[less]\nsetb %[carry]\n"           \
                     ALL(STORE) "mov %%r8, (%[integers])\nmov %%r9, 8(%[integers])\n"             \
                                "mov %%r10, 16(%[integers])\nmov %%r11, 24(%[integers])\n"        \
                                "mov %%rax, 32(%[integers])\nmov %%rcx, 40(%[integers])\n"        \
                                "mov %%rdx, 48(%[integers])\n"                                    \
                                "mov -8(%%rsp), %%rax\nmov %%rax, %[red]\n"                       \
                                "mov -128(%%rsp), %%rax\nadd %%rax, %[red]\n"                     \
                     : [less] "=&m"(is_less), [carry] "=&m"(is_carry), [red] "=&m"(red)           \
                     : [values] "D"(values), [after] "S"(after), [integers] "b"(integers)         \
                     : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "cc", "xmm0",     \
                       "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",    \
                       "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15")
#define NOTE(name, behind)                                                                        \
    "770: nop\n" behind ".pushsection .note.stapsdt, \"\", \"note\"\n"                            \
    ".balign 4\n.4byte 8, 774f - 773f, 3\n.asciz \"stapsdt\"\n"                                   \
    "773: .8byte 770b, probe_base, 0\n.asciz \"app\"\n.asciz \"" name "\"\n.asciz \"\"\n"         \
    "774: .balign 4\n.popsection\n"
    for (int round = 0; round < 2; round++) {
        memset(after, 0, sizeof after);
        memset(integers, 0, sizeof integers);
        if (round == 0) {
            KEEP(NOTE("kept", ""));
        } else {
            // The four bytes are a jump over nothing, and two instructions without effect: they lead into this code.
            KEEP(NOTE("kept", ".byte 0xeb, 0x02, 0x00, 0x00\n"));
        }
        static const unsigned long expected[7] = {11, 12, 13, 14, 15, 16, 17};
        if (memcmp(integers, expected, sizeof expected) || memcmp(after, values, sizeof after))
            fail("registers changed");
        if (red != 0x1234567 + 0x7654321 || !is_less || !is_carry)
            fail("the stack or the flags changed");
    }
}

static void on_signal(int number) {
    (void)number;
    PROBE(app, handled);
    PROBE_TRAPPED(app, handled);
    handled += 2;
}

static void on_trap(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    if (number != SIGTRAP)
        fail("the handler got another signal");
    own++;
}

static void *thread(void *argument) {
    sigset_t all;
    sigfillset(&all);
    if (argument) {
        pthread_sigmask(SIG_SETMASK, &all, NULL);
        for (int i = 0; i < 100; i++) {
            PROBE(app, blocked);
            PROBE_TRAPPED(app, blocked);
            blocked += 2;
        }
    }
    for (int i = 0; i < 1000; i++)
        part(3);
    return NULL;
}

static void plug(const char *path) {
    for (int i = 0; i < 3; i++) {
        void *library = dlopen(path, RTLD_NOW);
        if (!library)
            fail(dlerror());
        int (*run)(int) = (int (*)(int))dlsym(library, "plugin_run");
        plugged += run(10);
        dlclose(library);
    }
}

int main(int count, char **arguments) {
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO}, old;
    sigaction(SIGTRAP, &action, NULL);
    part(10);
    keep();
    // A handler that blocks all signals, on a stack of its own.
    stack_t stack = {.ss_size = 1 << 16, .ss_sp = malloc(1 << 16)};
    sigaltstack(&stack, NULL);
    struct sigaction handler = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_RESTART};
    sigfillset(&handler.sa_mask);
    sigaction(SIGUSR1, &handler, NULL);
    sigaction(SIGALRM, &handler, NULL);
    for (int i = 0; i < 10; i++)
        raise(SIGUSR1);
    // As programs wait for one signal alone.
    sigset_t all, one;
    sigfillset(&all);
    one = all;
    sigdelset(&one, SIGUSR1);
    sigprocmask(SIG_SETMASK, &all, NULL);
    raise(SIGUSR1);
    sigsuspend(&one);
    raise(SIGUSR1);
    ppoll(NULL, 0, NULL, &one);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    // Interrupts everywhere.
    struct itimerval timer = {{0, 100}, {0, 100}};
    setitimer(ITIMER_REAL, &timer, NULL);
    pthread_t threads[4];
    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, thread, (void *)(i % 2));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    memset(&timer, 0, sizeof timer);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (int i = 0; i < 5; i++)
        raise(SIGTRAP);
    __asm__ volatile("int3");
    sigaction(SIGTRAP, NULL, &old);
    if (own != 6 || old.sa_sigaction != on_trap)
        fail("the handler of the program was not called");
    // Of the child are these, and it has its own numbers.
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        PROBE(app, child);
        PROBE_TRAPPED(app, child);
        signal(SIGTRAP, SIG_DFL);
        __asm__ volatile("int3");
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGTRAP)
        fail("a trap of the program did not end the child");
    if (count > 1)
        plug(arguments[1]);
    printf("app:asked %lu\napp:begin %lu\napp:blocked %lu\napp:child 2\napp:handled %lu\n", asks, begins, blocked, handled);
    printf("app:kept 2\napp:step %lu\napp:trapped %lu\n", steps, traps);
    if (plugged)
        printf("plug:run %lu\n", plugged);
    return 0;
}
