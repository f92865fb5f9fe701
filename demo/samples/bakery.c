/* A program without libraries, to be recorded by perf: `make.sh` says how. */
#define NOINLINE __attribute__((noinline))

static long call(long number, long a, long b, long c, long d, long e) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
    return result;
}

static volatile unsigned long dough;

/* A function that calls nothing would have no frame, so that stacks lose its caller. */
#define FRAME() __asm__ volatile("" : : "r"(__builtin_frame_address(0)))

NOINLINE void fold(long turns) {
    FRAME();
    for (long turn = 0; turn < turns; turn++) dough += turn * turn;
}

NOINLINE void rest(long ms) {
    long time[2] = {ms / 1000, ms % 1000 * 1000000};
    call(35, (long)time, 0, 0, 0, 0);
    dough += 1;
}

NOINLINE void knead(long turns) {
    fold(turns);
    for (long turn = 0; turn < turns / 2; turn++) dough ^= turn;
    rest(4);
    dough += 1;
}

NOINLINE void shape(long loaves) {
    for (long loaf = 0; loaf < loaves; loaf++) fold(1000000);
    dough += 1;
}

NOINLINE void bake(long loaves) {
    for (long loaf = 0; loaf < loaves; loaf++) {
        rest(10);
        fold(4000000);
    }
    dough += 1;
}

NOINLINE void day(long is_oven) {
    for (int batch = 0; batch < 8; batch++) {
        if (is_oven) {
            bake(3);
        } else {
            knead(20000000);
            shape(10);
        }
    }
    dough += 1;
}

void begin(void) {
    long child = call(57, 0, 0, 0, 0, 0);
    if (child == 0) call(157, 15, (long)"oven", 0, 0, 0);
    day(child == 0);
    if (child != 0) call(61, child, 0, 0, 0, 0);
    call(60, 0, 0, 0, 0, 0);
}

__asm__(".globl _start\n_start:\n xor %ebp,%ebp\n call begin\n hlt\n");
