/* Events with all types of fields: `values FOLDER ctf2|ctf1.8`. C11 and C++17. */
#include <string.h>
#include <tracemill/record.h>

TM_EVENT(t, small, (tm_u8, a), (tm_i8, b), (tm_u16, c), (tm_i16, d), (tm_u32, e), (tm_i32, f))
TM_EVENT(t, large, (tm_u64, a), (tm_i64, b), (tm_f32, c), (tm_f64, d), (tm_bool, e), (tm_bool, f))
TM_EVENT(t, texts, (tm_str, text), (tm_text, part), (tm_str, empty), (tm_str, null), (tm_text, none), (tm_str, longer))
TM_EVENT(t, bytes, (tm_bytes(3), three), (tm_bytes(1), null))
TM_EVENT(t, twelve, (tm_u8, a), (tm_u8, b), (tm_u8, c), (tm_u8, d), (tm_u8, e), (tm_u8, f), (tm_u8, g), (tm_u8, h),
         (tm_u8, i), (tm_u8, j), (tm_u8, k), (tm_str, l))
TM_EVENT(t, bare)
TM_EVENT(t, off, (tm_u32, i))

static const unsigned char three[3] = {1, 2, 3};

int main(int argc, char **argv) {
    static char text[5002];
    tm_options options;
    int status;
    if (argc < 3) return 2;
    tm_t_bare(); /* nothing is recorded yet */
    if (tm_stop() == 0 || tm_snapshot("nowhere") == 0 || tm_start(NULL) == 0) return 3;
    memset(&options, 0, sizeof options);
    options.path = argv[1];
    options.mode = TM_FLIGHT;
    options.format = strcmp(argv[2], "ctf2") == 0 ? TM_CTF2 : TM_CTF18;
    options.ring_bytes = 1 << 20;
    options.events = "t:*,-t:off";
    status = tm_start(&options);
    if (status != 0) return 4;
    if (tm_start(&options) == 0) return 5;
    for (size_t at = 0; at + 1 < sizeof text; at += 2) memcpy(text + at, "\xc3\xbc", 2);
    text[sizeof text - 2] = 0;
    tm_t_small(1, -2, 3, -4, 5, -6);
    tm_t_large(UINT64_MAX, INT64_MIN, 1.5f, -2.25, true, false);
    tm_t_texts("M\xc3\xbchle", tm_text("parted", 4), "", NULL, tm_text(NULL, 7), text);
    tm_t_bytes(three, NULL);
    tm_t_twelve(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, "twelve");
    tm_t_off(1);
    tm_t_bare();
#if !defined(TM_DISABLE) && (defined(__x86_64__) || defined(__aarch64__))
    /* A thread need not ask for its writer. */
    if (tm_record_site_t_bare.thread == 0 || tm_record_own_(&tm_record_site_t_bare) != tm_record_writer_()) return 7;
#endif
    return tm_stop() == 0 && tm_discarded() == 0 ? 0 : 6;
}
