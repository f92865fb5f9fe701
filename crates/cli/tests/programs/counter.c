/* Calls for ever, and counts in a file what has returned; ends after so many calls, if that is said. With -DNOBODY as nobody,
   who may not ask for others' processes; 77 when that is not allowed. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void leaf(volatile unsigned long *counter) { (void)counter; }
int main(int argc, char **argv) {
    int file = open(argv[1], O_RDWR | O_CREAT, 0600);
    unsigned long most = argc > 2 ? strtoul(argv[2], NULL, 10) : ~0UL;
    volatile unsigned long *counter;
    if (file < 0 || ftruncate(file, 4096)) return 1;
#ifdef NOBODY
    if (setresuid(65534, 65534, 65534)) return 77;
#endif
    counter = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    while (*counter < most) {
        leaf(counter);
        *counter += 1;
    }
    return 0;
}
