/* Functions of two files that call each other. */
static volatile int work;
void aleaf(int n) { work += n; }
#include "files.h"
void amid(int n) {
    aleaf(n);
    bmid(n);
    bleaf(n);
}
int main(void) {
    for (int i = 0; i < 2; i++) amid(i);
    bmid(3);
    return 0;
}
