/* Threads one after the other, each of which begins when the recorder has taken everything of the one before. Says how many
   rings there were in a folder below the one that is named. */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HIDDEN __attribute__((no_instrument_function))

static char names[4096][32];
static int count;

__attribute__((noinline)) void leaf(long number) { __asm__ volatile("" : : "r"(number)); }

static void *work(void *unused) {
    for (int i = 0; i < 3; i++) leaf(i);
    return unused;
}

/* The second number of a ring's header, after 8 bytes: its kind, then its state. */
HIDDEN static int state(const char *path) {
    int words[2] = {0, -1};
    FILE *file = fopen(path, "rb");
    if (!file) return -1;
    fseek(file, 8, SEEK_SET);
    if (fread(words, 4, 2, file) != 2) words[1] = -1;
    fclose(file);
    return words[1];
}

/* Are all rings free, but the one of this thread? */
HIDDEN static int is_quiet(const char *folder) {
    int others = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[4096];
        if (!strstr(entry->d_name, ".ring")) continue;
        int known = 0;
        for (int i = 0; i < count; i++) known |= !strcmp(names[i], entry->d_name);
        if (!known && count < 4096) strncpy(names[count++], entry->d_name, 31);
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        others += state(path) != 0;
    }
    if (dir) closedir(dir);
    return others == 1;
}

int main(int argc, char **argv) {
    char folder[2048] = "";
    DIR *dir = opendir(argv[2]);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.') snprintf(folder, sizeof folder, "%s/%s", argv[2], entry->d_name);
    if (dir) closedir(dir);
    for (int i = 0; i < atoi(argv[1]); i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, NULL);
        pthread_join(thread, NULL);
        while (folder[0] && !is_quiet(folder)) usleep(100);
    }
    printf("%d\n", count);
    return argc > 3;
}
