/* Loads a library with LTTng's tracepoints again and again: `host LIBRARY`. */
#include <dlfcn.h>
#include <stddef.h>

#include <tracemill/record.h>

int main(int argc, char **argv) {
    for (int round = 0; argc == 2 && round < 3; round++) {
        void *const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        int (*run)(void);
        if (!library) return 2;
        *(void **)&run = dlsym(library, "run");
        if (!run || run() != 0) return 3;
        if (dlclose(library) != 0) return 4;
    }
    /* Tracepoints that the library left behind are switched off. */
    return tm_stop() == 0 ? 0 : 5;
}
