/* Calls that options select: some long, some short, recursion, functions that begin and end a pause. */
static volatile int work;

void spin(int n) { for (int i = 0; i < n; i++) work += i; }
void leaf(void) { work++; }
void deep(int n) {
    leaf();
    if (n > 0) deep(n - 1);
    leaf();
}
void both(int n) {
    spin(n);
    leaf();
}
void busy(int n) {
    both(n);
    deep(3);
    both(n / 2);
}
void on(void) { leaf(); }
void off(void) { leaf(); }
void all(int n) {
    busy(n);
    off();
    both(1);
    on();
    spin(n);
    leaf();
}
int main(void) {
    all(10);
    busy(2000000);
    on();
    all(100);
    deep(2);
    return 0;
}
