// Calls of well-known functions of the C library, whose values are recorded without debugging information.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void) {
	char *text = malloc(10);
	text = realloc(text, 50);
	strcpy(text, "jar");
	free(text);
	text = calloc(3, 7);
	free(text);
	void *block = aligned_alloc(64, 128);
	free(block);
	if (posix_memalign(&block, 64, 300) == 0)
		free(block);
	text = strdup("honey");
	printf("%d\n", (int)strlen(text) + atoi("42") + strcmp(text, "honey"));
	free(text);
	close(-1);
	return getenv("PANTRY") != NULL;
}
