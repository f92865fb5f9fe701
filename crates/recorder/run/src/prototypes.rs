//! Values of well-known functions of the C and C++ libraries, of which no debugging information tells: with `--auto-args`
//! they are recorded, too. What reads a folder finds the same lists in its `info`.
//!
//! The signatures are those of the functions' manual pages. Flags are hexadecimal numbers.

use std::fmt::Write;
use std::sync::LazyLock;

use crate::rules::ValueLines;

/// The lines of `info` that say which values are recorded of functions without debugging information.
pub fn prototypes() -> &'static ValueLines {
    static LINES: LazyLock<ValueLines> = LazyLock::new(|| {
        let mut lines = ValueLines::default();
        for (names, arguments, result) in PROTOTYPES {
            for name in names.split(' ') {
                for (line, specs) in [(&mut lines.arguments, arguments), (&mut lines.results, result)] {
                    if !specs.is_empty() {
                        // Writing to a text does not fail.
                        let _ = write!(line, "{name}@{specs};");
                    }
                }
            }
        }
        lines
    });
    &LINES
}

/// Names, arguments and return value. Functions of C++ that have one name without its types have one list.
const PROTOTYPES: &[(&str, &str, &str)] = &[
    // Memory.
    ("malloc valloc pvalloc", "arg1/u", "retval/p"),
    ("calloc aligned_alloc memalign", "arg1/u,arg2/u", "retval/p"),
    ("realloc", "arg1/p,arg2/u", "retval/p"),
    ("reallocarray", "arg1/p,arg2/u,arg3/u", "retval/p"),
    ("posix_memalign", "arg1/p,arg2/u,arg3/u", "retval/d32"),
    ("free cfree", "arg1/p", ""),
    ("malloc_usable_size", "arg1/p", "retval/u"),
    ("_Znwm _ZnwmRKSt9nothrow_t _ZnwmSt11align_val_t _ZnwmSt11align_val_tRKSt9nothrow_t", "arg1/u", "retval/x"),
    ("_Znam _ZnamRKSt9nothrow_t _ZnamSt11align_val_t _ZnamSt11align_val_tRKSt9nothrow_t", "arg1/u", "retval/x"),
    ("_ZdlPv _ZdlPvm _ZdlPvRKSt9nothrow_t _ZdlPvSt11align_val_t _ZdlPvmSt11align_val_t", "arg1/x", ""),
    ("_ZdaPv _ZdaPvm _ZdaPvRKSt9nothrow_t _ZdaPvSt11align_val_t _ZdaPvmSt11align_val_t", "arg1/x", ""),
    ("mmap mmap64", "arg1/p,arg2/u,arg3/x32,arg4/x32,arg5/d32,arg6/d64", "retval/p"),
    ("munmap", "arg1/p,arg2/u", "retval/d32"),
    ("mprotect madvise", "arg1/p,arg2/u,arg3/x32", "retval/d32"),
    ("brk", "arg1/p", "retval/d32"),
    ("sbrk", "arg1/d64", "retval/p"),
    ("memcpy memmove", "arg1/p,arg2/p,arg3/u", ""),
    ("memset", "arg1/p,arg2/d32,arg3/u", ""),
    ("memcmp", "arg1/p,arg2/p,arg3/u", "retval/d32"),
    ("memchr memrchr", "arg1/p,arg2/d32,arg3/u", "retval/p"),
    // Texts.
    ("strlen", "arg1/s", "retval/u"),
    ("strnlen", "arg1/s,arg2/u", "retval/u"),
    ("strcmp strcasecmp strcoll", "arg1/s,arg2/s", "retval/d32"),
    ("strncmp strncasecmp", "arg1/s,arg2/s,arg3/u", "retval/d32"),
    ("strcpy", "arg1/p,arg2/s", ""),
    ("strncpy", "arg1/p,arg2/s,arg3/u", ""),
    ("strcat", "arg1/s,arg2/s", "retval/s"),
    ("strncat", "arg1/s,arg2/s,arg3/u", "retval/s"),
    ("strdup", "arg1/s", "retval/s"),
    ("strndup", "arg1/s,arg2/u", "retval/s"),
    ("strchr strrchr", "arg1/s,arg2/c", "retval/s"),
    ("strstr strpbrk strtok", "arg1/s,arg2/s", "retval/s"),
    ("strspn strcspn", "arg1/s,arg2/s", "retval/u"),
    ("atoi", "arg1/s", "retval/d32"),
    ("atol atoll", "arg1/s", "retval/d64"),
    ("atof", "arg1/s", "retval/f64"),
    ("strtol strtoll", "arg1/s,arg2/p,arg3/d32", "retval/d64"),
    ("strtoul strtoull", "arg1/s,arg2/p,arg3/d32", "retval/u"),
    ("strtod", "arg1/s,arg2/p", "retval/f64"),
    ("qsort", "arg1/p,arg2/u,arg3/u,arg4/p", ""),
    ("bsearch", "arg1/p,arg2/p,arg3/u,arg4/u,arg5/p", "retval/p"),
    ("getenv", "arg1/s", "retval/s"),
    ("setenv", "arg1/s,arg2/s,arg3/d32", "retval/d32"),
    ("unsetenv", "arg1/s", "retval/d32"),
    // Files.
    ("open open64", "arg1/s,arg2/x32", "retval/d32"),
    ("openat openat64", "arg1/d32,arg2/s,arg3/x32", "retval/d32"),
    ("creat creat64", "arg1/s,arg2/x32", "retval/d32"),
    ("close fsync fdatasync isatty dup", "arg1/d32", "retval/d32"),
    ("dup2", "arg1/d32,arg2/d32", "retval/d32"),
    ("read write", "arg1/d32,arg2/p,arg3/u", "retval/d64"),
    ("pread pread64 pwrite pwrite64", "arg1/d32,arg2/p,arg3/u,arg4/d64", "retval/d64"),
    ("lseek lseek64", "arg1/d32,arg2/d64,arg3/d32", "retval/d64"),
    ("ftruncate", "arg1/d32,arg2/d64", "retval/d32"),
    ("access", "arg1/s,arg2/x32", "retval/d32"),
    ("stat lstat", "arg1/s,arg2/p", "retval/d32"),
    ("fstat", "arg1/d32,arg2/p", "retval/d32"),
    ("mkdir chmod", "arg1/s,arg2/x32", "retval/d32"),
    ("unlink rmdir chdir", "arg1/s", "retval/d32"),
    ("rename link symlink", "arg1/s,arg2/s", "retval/d32"),
    ("opendir", "arg1/s", "retval/p"),
    ("closedir", "arg1/p", "retval/d32"),
    ("ioctl", "arg1/d32,arg2/x64,arg3/x64", "retval/d32"),
    ("fcntl fcntl64", "arg1/d32,arg2/d32", "retval/d32"),
    ("pipe", "arg1/p", "retval/d32"),
    ("fopen fopen64", "arg1/s,arg2/s", "retval/p"),
    ("fdopen", "arg1/d32,arg2/s", "retval/p"),
    ("fclose fflush feof ferror fileno", "arg1/p", "retval/d32"),
    ("fread fwrite", "arg1/p,arg2/u,arg3/u,arg4/p", "retval/u"),
    ("fseek", "arg1/p,arg2/d64,arg3/d32", "retval/d32"),
    ("ftell", "arg1/p", "retval/d64"),
    ("fgets", "arg1/p,arg2/d32,arg3/p", "retval/s"),
    ("fputs", "arg1/s,arg2/p", "retval/d32"),
    ("puts", "arg1/s", "retval/d32"),
    ("putchar", "arg1/c", "retval/d32"),
    ("printf", "arg1/s", "retval/d32"),
    ("fprintf", "arg1/p,arg2/s", "retval/d32"),
    ("dprintf", "arg1/d32,arg2/s", "retval/d32"),
    ("sprintf", "arg1/p,arg2/s", "retval/d32"),
    ("snprintf", "arg1/p,arg2/u,arg3/s", "retval/d32"),
    // Processes, threads and time.
    ("exit _exit", "arg1/d32", ""),
    ("fork vfork getpid getppid gettid", "", "retval/i32"),
    ("wait", "arg1/p", "retval/i32"),
    ("waitpid", "arg1/i32,arg2/p,arg3/d32", "retval/i32"),
    ("kill", "arg1/i32,arg2/d32", "retval/d32"),
    ("raise", "arg1/d32", "retval/d32"),
    ("system", "arg1/s", "retval/d32"),
    ("sleep", "arg1/u32", "retval/u32"),
    ("usleep", "arg1/u32", "retval/d32"),
    ("nanosleep", "arg1/p,arg2/p", "retval/d32"),
    ("clock_gettime", "arg1/d32,arg2/p", "retval/d32"),
    ("dlopen", "arg1/s,arg2/x32", "retval/p"),
    ("dlsym", "arg1/p,arg2/s", "retval/p"),
    ("dlclose", "arg1/p", "retval/d32"),
    ("pthread_create", "arg1/p,arg2/p,arg3/p,arg4/p", "retval/d32"),
    ("pthread_join", "arg1/x,arg2/p", "retval/d32"),
    ("pthread_detach", "arg1/x", "retval/d32"),
    (
        "pthread_mutex_lock pthread_mutex_trylock pthread_mutex_unlock pthread_mutex_destroy pthread_cond_signal \
         pthread_cond_broadcast sem_wait sem_post",
        "arg1/p",
        "retval/d32",
    ),
    ("pthread_mutex_init pthread_cond_wait", "arg1/p,arg2/p", "retval/d32"),
    ("pthread_cond_timedwait", "arg1/p,arg2/p,arg3/p", "retval/d32"),
    // Sockets.
    ("socket", "arg1/d32,arg2/x32,arg3/d32", "retval/d32"),
    ("bind connect", "arg1/d32,arg2/p,arg3/u32", "retval/d32"),
    ("accept", "arg1/d32,arg2/p,arg3/p", "retval/d32"),
    ("listen shutdown", "arg1/d32,arg2/d32", "retval/d32"),
    ("send recv", "arg1/d32,arg2/p,arg3/u,arg4/x32", "retval/d64"),
    ("poll", "arg1/p,arg2/u,arg3/d32", "retval/d32"),
    ("select", "arg1/d32,arg2/p,arg3/p,arg4/p,arg5/p", "retval/d32"),
    ("epoll_ctl", "arg1/d32,arg2/d32,arg3/d32,arg4/p", "retval/d32"),
    ("epoll_wait", "arg1/d32,arg2/p,arg3/d32,arg4/d32", "retval/d32"),
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_function_has_one_list_of_each_kind() {
        let ValueLines { arguments, results } = prototypes();
        for (line, words) in [(arguments, &["arg"][..]), (results, &["retval"])] {
            let mut seen = HashSet::new();
            for item in line.split_terminator(';') {
                let (name, specs) = item.split_once('@').expect("a name and its values");
                assert!(seen.insert(name) && !name.is_empty(), "{name} comes twice");
                assert!(specs.split(',').all(|spec| words.iter().any(|word| spec.starts_with(word))), "{item}");
            }
        }
        assert!(arguments.contains("calloc@arg1/u,arg2/u;") && results.contains("calloc@retval/p;"));
        assert!(arguments.contains("free@arg1/p;") && !results.contains(";free@"));
    }
}
