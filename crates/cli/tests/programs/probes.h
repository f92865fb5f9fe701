// Probes as other programs have them: an instruction without effect of one byte, and a note about its place.
#define TEXT_OF(text) #text
#define TEXT(text) TEXT_OF(text)

#define PROBE_WITH(provider, name, semaphore, arguments, behind, ...)                             \
    __asm__ volatile("770: nop\n" behind "\n"                                                     \
                     ".pushsection .note.stapsdt, \"\", \"note\"\n"                               \
                     ".balign 4\n"                                                                \
                     ".4byte 772f - 771f, 774f - 773f, 3\n"                                       \
                     "771: .asciz \"stapsdt\"\n"                                                  \
                     "772: .balign 4\n"                                                           \
                     "773: .8byte 770b, probe_base, " semaphore "\n"                              \
                     ".asciz \"" #provider "\"\n"                                                 \
                     ".asciz \"" #name "\"\n"                                                     \
                     ".asciz \"" arguments "\"\n"                                                 \
                     "774: .balign 4\n"                                                           \
                     ".popsection\n"                                                              \
                     ".ifndef probe_base\n"                                                       \
                     ".pushsection .stapsdt.base, \"a\", \"progbits\"\n"                          \
                     "probe_base: .space 1\n"                                                     \
                     ".popsection\n"                                                              \
                     ".endif\n" __VA_ARGS__)

// A probe without arguments.
#define PROBE(provider, name) PROBE_WITH(provider, name, "0", "", "")
// A probe with a number.
#define PROBE_OF(provider, name, value) PROBE_WITH(provider, name, "0", "-4@%0", "", : : "nor"(value))
// A probe of which the program asks whether anybody listens.
#define PROBE_ASKED(provider, name, semaphore) PROBE_WITH(provider, name, #semaphore, "", "")
// A probe whose place no jump of one byte can take: the four bytes after it are 0, so it would lead to the code after those.
// Their two instructions add to the byte at an address.
#define PROBE_TRAPPED(provider, name)                                                             \
    do {                                                                                          \
        char byte = 0;                                                                            \
        PROBE_WITH(provider, name, "0", "", ".byte 0, 0, 0, 0", : : "a"(&byte) : "memory", "cc"); \
    } while (0)
// The counter that a program tests.
#define SEMAPHORE(name)                                                                           \
    __attribute__((section(".probes"), used, visibility("hidden"))) volatile unsigned short name
