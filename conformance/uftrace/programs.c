/*
 * What the recordings of record.sh run: one program, whose first argument says what it does.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))

static volatile long sink;
static jmp_buf place;

struct pair {
	int a;
	double b;
};

enum color { RED, GREEN = 5, BLUE };

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

KEEP void *worker(void *argument)
{
	long rounds = (long)argument;

	for (long i = 0; i < rounds; i++)
		sink += branch(3);
	usleep(200);
	return NULL;
}

KEEP void threads(int count)
{
	pthread_t all[8];

	for (int i = 0; i < count; i++)
		pthread_create(&all[i], NULL, worker, (void *)(long)(i + 2));
	for (int i = 0; i < count; i++)
		pthread_join(all[i], NULL);
}

KEEP void jump_out(int depth)
{
	if (depth == 0)
		longjmp(place, 1);
	jump_out(depth - 1);
}

KEEP void jumps(void)
{
	if (setjmp(place) == 0)
		jump_out(3);
	branch(2);
	if (setjmp(place) == 0)
		jump_out(1);
	leaf(7);
}

KEEP long integers(signed char a, short b, int c, long d, unsigned char e, unsigned short f)
{
	return a + b + c + d + e + f;
}

KEEP float reals(float a, double b)
{
	return a + (float)b;
}

KEEP char letter(char c)
{
	return c == 'z' ? '\n' : c;
}

KEEP const char *text(const char *a, const char *b)
{
	return a[0] ? a : b;
}

KEEP void *pointer(void *p)
{
	return p;
}

KEEP enum color paint(enum color c)
{
	return c == BLUE ? RED : c;
}

KEEP void arguments(void)
{
	integers(-5, -300, -70000, 1L << 40, 250, 65000);
	integers(5, 300, 70000, -7, 0, 0);
	reals(1.5f, -2.25);
	letter('a');
	letter('z');
	text("plain", "other");
	text("", "with \"quotes\" and \\ and \t");
	text("a text of more than ninety-eight bytes, which the recorder cuts somewhere behind its ninety-fifth byte, here",
	     "x");
	pointer((void *)leaf);
	pointer(NULL);
	pointer((void *)&sink);
	paint(GREEN);
	paint(BLUE);
}

KEEP void forks(void)
{
	pid_t child = fork();

	if (child == 0) {
		branch(2);
		_exit(3);
	}
	waitpid(child, NULL, 0);
	leaf(1);
}

KEEP void deep(int n)
{
	if (n > 0)
		deep(n - 1);
	else
		leaf(n);
}

KEEP void handler(int signal)
{
	leaf(signal);
}

KEEP void signals(void)
{
	signal(SIGUSR1, handler);
	raise(SIGUSR1);
	branch(1);
}

KEEP void die(void)
{
	leaf(1);
	raise(SIGKILL);
}

KEEP void loads(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	int (*function)(int);

	if (library == NULL)
		return;
	*(void **)&function = dlsym(library, "plugin");
	if (function != NULL)
		sink += function(4);
	dlclose(library);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "threads") == 0)
		threads(4);
	else if (strcmp(what, "jumps") == 0)
		jumps();
	else if (strcmp(what, "arguments") == 0)
		arguments();
	else if (strcmp(what, "forks") == 0)
		forks();
	else if (strcmp(what, "deep") == 0)
		deep(200);
	else if (strcmp(what, "signals") == 0)
		signals();
	else if (strcmp(what, "die") == 0)
		die();
	else if (strcmp(what, "loads") == 0 && argc > 2)
		loads(argv[2]);
	else if (strcmp(what, "exec") == 0) {
		threads(2);
		leaf(2);
		execl(argv[0], argv[0], "threads", (char *)NULL);
	} else if (strcmp(what, "exit") == 0) {
		branch(2);
		exit(4);
	} else
		branch(3);
	return 0;
}
