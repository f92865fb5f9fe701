// A pantry: jars are filled and emptied, labels are written and thrown away, and some of both are forgotten.
#include <cstdlib>
#include <cstring>
#include <thread>

struct Jar {
	char *label;
	int *grams;
};

char *write_label(int number) {
	char *label = static_cast<char *>(malloc(32));
	memset(label, 'a' + number % 26, 31);
	label[31] = 0;
	return label;
}

Jar *fill_jar(int number) {
	Jar *jar = new Jar;
	jar->label = write_label(number);
	jar->grams = new int[20 + number];
	return jar;
}

// Every fourth label is forgotten.
void empty_jar(Jar *jar, int number) {
	if (number % 4 != 0)
		free(jar->label);
	delete[] jar->grams;
	delete jar;
}

void stock_shelf(int jars) {
	for (int number = 0; number < jars; number++)
		empty_jar(fill_jar(number), number);
}

// The list of what is missing grows, and nobody throws it away.
void *list_missing(int lines) {
	void *list = nullptr;
	for (int line = 1; line <= lines; line++)
		list = realloc(list, line * 40);
	return list;
}

int main() {
	std::thread helper(stock_shelf, 6);
	stock_shelf(9);
	helper.join();
	return list_missing(5) == nullptr;
}
