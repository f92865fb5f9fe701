/* Loads a library that stands beside the program, with -DPLUGIN this file again. */
#include <dlfcn.h>
#include <stdio.h>

#ifndef MORE
#define MORE 1
#endif

#ifdef PLUGIN
int twice(int n) { return 2 * n; }
int plugged(int n) { return twice(n) + MORE; }
#else
int main(int argc, char **argv) {
    (void)argc;
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library) return 1;
    int (*plugged)(int) = (int (*)(int))dlsym(library, "plugged");
    printf("%d\n", plugged(20));
    dlclose(library);
    return 0;
}
#endif
