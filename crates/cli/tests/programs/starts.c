/* Starts the program of the second argument in the way of the first one, and waits for its end. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;

int main(int argc, char **argv) {
    char *arguments[] = {argv[2], "c", "3", NULL};
    pid_t pid;
    int status = 0;
    if (argc < 3) return 1;
    if (!strcmp(argv[1], "spawn")) { if (posix_spawnp(&pid, argv[2], NULL, NULL, arguments, environ)) return 2; }
    else if (!strcmp(argv[1], "vfork")) { if (!(pid = vfork())) { execv(argv[2], arguments); _exit(0); } }
    else if (!(pid = fork())) {
        if (!strcmp(argv[1], "file")) fexecve(open(argv[2], O_RDONLY | O_CLOEXEC), arguments, environ);
        else execvp(argv[2], arguments);
        _exit(0);
    }
    return waitpid(pid, &status, 0) != pid || status;
}
