/*
 * What more of the recordings of record.sh run: processes that begin others, jumps, signals and ends of threads. The first
 * argument says which.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))

extern char **environ;
static volatile long sink;
static char *self;

KEEP int leaf(int n)
{
	sink += n;
	return n + 1;
}

KEEP int branch(int n)
{
	int sum = 0;

	for (int i = 0; i < n; i++)
		sum += leaf(i);
	return sum;
}

KEEP static void become(const char *what)
{
	execl(self, self, what, (char *)NULL);
	_exit(9);
}

/* A thread that becomes another program takes the place of its process; the other threads are over. */
KEEP void *executing(void *argument)
{
	branch(1);
	become("plain");
	return argument;
}

KEEP void *sleeping(void *argument)
{
	branch(1);
	usleep(30000);
	return argument;
}

KEEP void exec_of_a_thread(void)
{
	pthread_t all[2];

	pthread_create(&all[0], NULL, sleeping, NULL);
	pthread_create(&all[1], NULL, executing, NULL);
	pthread_join(all[1], NULL);
}

KEEP void chain(const char *next)
{
	pid_t child = fork();

	if (child == 0) {
		leaf(1);
		become(next);
	}
	waitpid(child, NULL, 0);
	leaf(2);
}

KEEP void spawns(void)
{
	char *arguments[] = { self, "plain", NULL };
	pid_t child = vfork();

	if (child == 0)
		become("plain");
	waitpid(child, NULL, 0);
	if (posix_spawn(&child, self, NULL, NULL, arguments, environ) == 0)
		waitpid(child, NULL, 0);
	leaf(3);
	if (system("true") == 0)
		leaf(4);
}

KEEP void forks(int depth)
{
	for (int i = 0; i < 2 && depth > 0; i++) {
		pid_t child = fork();

		if (child == 0) {
			forks(depth - 1);
			exit(depth);
		}
		waitpid(child, NULL, 0);
	}
	branch(1);
}

KEEP void dive(int n, jmp_buf *to)
{
	if (n == 0)
		longjmp(*to, 3);
	dive(n - 1, to);
	leaf(n);
}

static jmp_buf outer, inner;

KEEP void nested_jumps(void)
{
	if (setjmp(outer) == 0) {
		branch(1);
		if (setjmp(inner) == 0)
			dive(4, &inner);
		leaf(5);
		dive(40, &outer);
	}
	branch(2);
}

KEEP void *jumping(void *argument)
{
	jmp_buf place;

	for (volatile int i = 0; i < 4; i++) {
		if (setjmp(place) == 0)
			dive((int)(long)argument, &place);
		usleep(10);
	}
	return argument;
}

static sigjmp_buf behind;

KEEP void jump_away(int signal)
{
	leaf(signal);
	siglongjmp(behind, 1);
}

KEEP void raise_another(int signal)
{
	leaf(signal);
	raise(SIGUSR1);
	leaf(0);
}

KEEP void raise_below(int n)
{
	if (n > 0)
		raise_below(n - 1);
	else
		raise(SIGUSR2);
	leaf(n);
}

KEEP void signal_jumps(void)
{
	signal(SIGUSR1, jump_away);
	signal(SIGUSR2, raise_another);
	for (volatile int i = 0; i < 3; i++) {
		if (sigsetjmp(behind, 1) == 0)
			raise_below(i + 1);
		leaf(i);
	}
}

static volatile int ticks;

KEEP void on_tick(int signal)
{
	ticks++;
	leaf(signal);
}

KEEP void alarms(void)
{
	struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { { 0, 0 }, { 0, 0 } };

	signal(SIGALRM, on_tick);
	setitimer(ITIMER_REAL, &often, NULL);
	while (ticks < 10)
		branch(20);
	setitimer(ITIMER_REAL, &never, NULL);
}

KEEP void *ending(void *argument)
{
	branch(1);
	pthread_exit(argument);
}

KEEP void cleanup(void *argument)
{
	leaf((int)(long)argument);
}

KEEP void *endless(void *argument)
{
	pthread_cleanup_push(cleanup, (void *)5);
	for (;;) {
		leaf(1);
		usleep(100);
	}
	pthread_cleanup_pop(1);
	return argument;
}

/* Names that are no UTF-8, and what must be escaped. */
KEEP void *named(void *argument)
{
	pthread_setname_np(pthread_self(), "a \"name\"");
	branch(1);
	prctl(PR_SET_NAME, "\xff\xfe bytes");
	usleep(100);
	return argument;
}

KEEP void each_thread(void *(*function)(void *), int count)
{
	pthread_t all[8];

	for (long i = 0; i < count; i++)
		pthread_create(&all[i], NULL, function, (void *)(i + 1));
	for (int i = 0; i < count; i++) {
		if (function == endless) {
			usleep(500);
			pthread_cancel(all[i]);
		}
		pthread_join(all[i], NULL);
	}
}

static ucontext_t here, there;
static char stack[1 << 16];

KEEP void coroutine(void)
{
	leaf(1);
	swapcontext(&there, &here);
	branch(2);
}

KEEP void contexts(void)
{
	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = sizeof(stack);
	there.uc_link = &here;
	makecontext(&there, coroutine, 0);
	for (int i = 0; i < 2; i++) {
		swapcontext(&here, &there);
		leaf(i);
	}
}

KEEP void deep(int n)
{
	if (n > 0)
		deep(n - 1);
	leaf(n);
}

__attribute__((constructor)) KEEP static void before_main(void)
{
	leaf(0);
}

__attribute__((destructor)) KEEP static void behind_main(void)
{
	leaf(0);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "plain";

	self = argv[0];
	if (strcmp(what, "exec-thread") == 0) {
		exec_of_a_thread();
	} else if (strcmp(what, "chain") == 0) {
		chain("chain-2");
		chain("plain");
	} else if (strcmp(what, "chain-2") == 0) {
		branch(1);
		become("chain-3");
	} else if (strcmp(what, "chain-3") == 0) {
		chain("plain");
		each_thread(jumping, 2);
		become("plain");
	} else if (strcmp(what, "spawns") == 0) {
		spawns();
	} else if (strcmp(what, "forks") == 0) {
		forks(3);
	} else if (strcmp(what, "jumps") == 0) {
		nested_jumps();
		each_thread(jumping, 3);
	} else if (strcmp(what, "signals") == 0) {
		signal_jumps();
		alarms();
	} else if (strcmp(what, "endings") == 0) {
		each_thread(ending, 2);
		each_thread(endless, 2);
		each_thread(named, 2);
	} else if (strcmp(what, "contexts") == 0) {
		contexts();
	} else if (strcmp(what, "deep") == 0) {
		deep(1500);
	} else {
		branch(3);
	}
	return 0;
}
