//! Summaries of functions outside of the traced code, by name: what they read and write. The slice passes
//! through them without seeing their instructions.
//!
//! An incomplete summary cuts a slice short, so functions without one are reported to the user by name.

use crate::{ByteSpan, CELLS};

/// The knowledge of a function's effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummaryQuality {
    /// All its effects on the program's memory are known.
    Known,
    /// It is called only for instrumentation or synchronisation: no data passes.
    NoData,
    /// Nothing is known of it.
    Unknown,
}

/// The effects of a function.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The reliability of the summary.
    pub quality: SummaryQuality,
    /// The number of arguments; more may follow if it is variadic.
    pub arguments: u8,
    /// True if more arguments may follow.
    pub variadic: bool,
    /// True if it is an atomic operation on its first argument.
    pub atomic: bool,
    /// The number of arguments in vector registers.
    pub vectors: u8,
    effects: Vec<SummaryEffect>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EffectKind {
    Read,
    Write,
    MayWrite,
    Fresh,
}

#[derive(Clone, Copy, Debug)]
struct SummaryEffect {
    kind: EffectKind,
    at: EffectTarget,
    len: EffectLength,
}

#[derive(Clone, Copy, Debug)]
enum EffectTarget {
    Argument(u8),
    Result,
    /// The contents of a stream or file descriptor.
    Stream(u8),
    Descriptor(u8),
    /// Standard output.
    Output,
}

#[derive(Clone, Copy, Debug)]
enum EffectLength {
    Argument(u8),
    Constant(u64),
    Product(u8, u8),
    Result,
    /// As many bytes as the result says, and a zero.
    ResultAndZero,
    /// Up to a zero at an unknown position.
    Text,
}

/// The bytes that a call touched.
#[derive(Clone, Debug, Default)]
pub(super) struct TouchedBytes {
    pub(super) reads: Vec<ByteSpan>,
    pub(super) writes: Vec<ByteSpan>,
    pub(super) may_write: Vec<ByteSpan>,
    pub(super) fresh: Option<ByteSpan>,
    pub(super) guessed: bool,
    pub(super) atomic: bool,
}

/// The assumed maximum length of a text of unknown length.
const TEXT: u64 = 4096;

impl Summary {
    /// Returns the summary of a function by its symbol.
    #[must_use]
    pub fn of(symbol: &str) -> Self {
        let name = symbol.split('@').next().unwrap_or(symbol);
        let name = name.strip_prefix("__wrap_").unwrap_or(name);
        // The C library's names for functions that it also calls itself, where it has debug information.
        let name = name.strip_prefix("__GI_").unwrap_or(name);
        if let Some(atomic) = name.strip_prefix("__tsan_atomic").and_then(atomic) {
            return atomic;
        }
        // Instrumented programs call allocation functions through the runtime's functions of these names.
        let passed_on = name.strip_prefix("unsnarl_").map(Self::of);
        if let Some(known) = passed_on.filter(|of| of.quality == SummaryQuality::Known) {
            return known;
        }
        if name.starts_with("__tsan_") || name.starts_with("unsnarl_") || name.starts_with("__unsnarl_") {
            return Self::new(SummaryQuality::NoData, 0, "");
        }
        // Here the trace pauses until the thread unwinds.
        if name.starts_with("std::panicking::") {
            return Self::new(SummaryQuality::NoData, 0, "");
        }
        for (names, arguments, effects) in TABLE {
            if names.split_whitespace().any(|known| known == name) {
                return Self::new(SummaryQuality::Known, *arguments, effects);
            }
        }
        // The C library's internal names for the same functions.
        let inside = name.strip_prefix("__libc_").or_else(|| name.strip_prefix("__"));
        if let Some(known) = inside.map(Self::of).filter(|of| of.quality != SummaryQuality::Unknown) {
            return known;
        }
        let synchronises = ["pthread_", "sem_", "mtx_", "cnd_", "thrd_", "tss_", "__cxa_guard"];
        if synchronises.iter().any(|prefix| name.starts_with(prefix)) {
            return Self::new(SummaryQuality::NoData, 1, "");
        }
        if MATHS.split_whitespace().any(|known| known == name) {
            let mut summary = Self::new(SummaryQuality::Known, 0, "");
            summary.vectors = 2;
            return summary;
        }
        Self {
            quality: SummaryQuality::Unknown,
            arguments: 0,
            variadic: true,
            atomic: false,
            vectors: 0,
            effects: Vec::new(),
        }
    }

    /// Parses effects. `effects`: `r` read, `w` written, `m` may be written, `f` fresh; at an argument's
    /// number, `R` the result, `sN` a stream, `dN` a descriptor, `o` standard output; then after a colon the
    /// length: `aN` an argument, `cN` bytes, `pNM` the product of two arguments, `R` the result, `Z` the
    /// result and a zero, `t` a text.
    fn new(quality: SummaryQuality, arguments: u8, effects: &str) -> Self {
        let mut summary =
            Self { quality, arguments, variadic: false, atomic: false, vectors: 0, effects: Vec::new() };
        for effect in effects.split_whitespace() {
            if effect == "..." {
                summary.variadic = true;
                continue;
            }
            summary.effects.extend(parse(effect));
        }
        summary
    }

    /// Returns the bytes that a call with these arguments and this result touched.
    pub(super) fn touched(&self, arguments: [u64; 6], result: Option<u64>) -> TouchedBytes {
        let mut touched = TouchedBytes { atomic: self.atomic, ..TouchedBytes::default() };
        for effect in &self.effects {
            let argument = |n: u8| arguments[usize::from(n)];
            let Some(addr) = (match effect.at {
                EffectTarget::Argument(n) => Some(argument(n)),
                EffectTarget::Result => result,
                EffectTarget::Stream(n) => Some(CELLS | 0x10 << 56 | argument(n) & 0xffff_ffff_fff8),
                EffectTarget::Descriptor(n) => Some(CELLS | 0x11 << 56 | (argument(n) & 0xffff_ffff) << 3),
                EffectTarget::Output => Some(CELLS | 0x11 << 56 | 1 << 3),
            }) else {
                continue;
            };
            let in_range = |len: u64| if len > 1 << 40 { 0 } else { len };
            let failed = result.is_some_and(|result| result as i64 <= 0);
            let (len, certain) = match effect.len {
                EffectLength::Argument(n) => (in_range(argument(n)), true),
                EffectLength::Constant(len) => (len, true),
                EffectLength::Product(a, b) => (in_range(argument(a).wrapping_mul(argument(b))), true),
                EffectLength::Result if failed => (0, true),
                EffectLength::Result => (in_range(result.unwrap_or(0) & 0xffff_ffff), true),
                EffectLength::ResultAndZero => (in_range((result.unwrap_or(0) & 0xffff_ffff) + 1), true),
                EffectLength::Text => (TEXT, false),
            };
            if addr < 4096 || len == 0 {
                continue;
            }
            let span = ByteSpan::new(addr, len);
            match effect.kind {
                // A text of unknown length is assumed to be short when read.
                EffectKind::Read if !certain => touched.reads.push(ByteSpan::new(addr, 64)),
                EffectKind::Read => touched.reads.push(span),
                EffectKind::Write if certain => touched.writes.push(span),
                EffectKind::Write | EffectKind::MayWrite => touched.may_write.push(span),
                EffectKind::Fresh => touched.fresh = Some(span),
            }
        }
        touched
    }
}

fn parse(effect: &str) -> Option<SummaryEffect> {
    let (at, len) = effect.split_once(':').unwrap_or((effect, "c1"));
    let digit = |text: &str, at: usize| text.as_bytes().get(at).map(|digit| digit.wrapping_sub(b'0'));
    let kind = match at.as_bytes().first()? {
        b'r' => EffectKind::Read,
        b'w' => EffectKind::Write,
        b'm' => EffectKind::MayWrite,
        _ => EffectKind::Fresh,
    };
    let at = match at.as_bytes().get(1)? {
        b'R' => EffectTarget::Result,
        b'o' => EffectTarget::Output,
        b's' => EffectTarget::Stream(digit(at, 2)?),
        b'd' => EffectTarget::Descriptor(digit(at, 2)?),
        number => EffectTarget::Argument(number.wrapping_sub(b'0')),
    };
    let len = match len.as_bytes().first()? {
        b'a' => EffectLength::Argument(digit(len, 1)?),
        b'c' => EffectLength::Constant(len[1..].parse().ok()?),
        b'p' => EffectLength::Product(digit(len, 1)?, digit(len, 2)?),
        b'R' => EffectLength::Result,
        b'Z' => EffectLength::ResultAndZero,
        _ => EffectLength::Text,
    };
    Some(SummaryEffect { kind, at, len })
}

/// Parses `32_fetch_add` and similar names, which instrumented programs call instead of atomic instructions.
fn atomic(name: &str) -> Option<Summary> {
    let Some((bits, operation)) = name.split_once('_') else {
        return Some(Summary::new(SummaryQuality::NoData, 0, ""));
    };
    let bytes = bits.parse::<u64>().ok()? / 8;
    let (arguments, effects) = match operation {
        "load" => (1, format!("r0:c{bytes}")),
        "store" => (2, format!("w0:c{bytes}")),
        "compare_exchange_strong" | "compare_exchange_weak" => {
            (3, format!("r0:c{bytes} r1:c{bytes} m0:c{bytes} m1:c{bytes}"))
        }
        "compare_exchange_val" => (3, format!("r0:c{bytes} m0:c{bytes}")),
        _ => (2, format!("r0:c{bytes} w0:c{bytes}")),
    };
    Some(Summary { atomic: true, ..Summary::new(SummaryQuality::Known, arguments, &effects) })
}

const MATHS: &str = "sin cos tan asin acos atan atan2 exp exp2 log log2 log10 pow sqrt cbrt fabs floor ceil \
    round trunc fmod sinf cosf tanf expf logf powf sqrtf fabsf floorf ceilf roundf truncf fmodf lround llround";

/// Names, number of arguments, effects.
const TABLE: &[(&str, u8, &str)] = &[
    ("memcpy memmove __memcpy_chk __memmove_chk mempcpy", 3, "r1:a2 w0:a2"),
    ("memset __memset_chk", 3, "w0:a2"),
    ("bzero explicit_bzero", 2, "w0:a1"),
    ("bcopy", 3, "r0:a2 w1:a2"),
    ("memcmp bcmp", 3, "r0:a2 r1:a2"),
    ("memchr memrchr", 3, "r0:a2"),
    ("strlen strnlen strdup strndup atoi atol atoll atof", 2, "r0:t"),
    ("strcmp strncmp strcasecmp strncasecmp strcoll strstr strpbrk strspn strcspn", 3, "r0:t r1:t"),
    ("strchr strrchr strchrnul index rindex", 2, "r0:t"),
    ("strtol strtoul strtoll strtoull strtod strtof __isoc23_strtol __isoc23_strtoul", 3, "r0:t m1:c8"),
    ("strcpy stpcpy __strcpy_chk __stpcpy_chk", 2, "r1:t w0:t"),
    ("strcat __strcat_chk", 2, "r0:t r1:t w0:t"),
    ("strncpy stpncpy __strncpy_chk", 3, "r1:t w0:a2"),
    ("strncat __strncat_chk", 3, "r0:t r1:t w0:t"),
    ("strtok", 2, "r0:t r1:t w0:t"),
    ("sprintf vsprintf", 2, "... r1:t w0:Z"),
    ("__sprintf_chk __vsprintf_chk", 4, "... r3:t w0:Z"),
    ("snprintf vsnprintf", 3, "... r2:t w0:Z"),
    ("__snprintf_chk __vsnprintf_chk", 5, "... r4:t w0:Z"),
    ("printf vprintf", 1, "... r0:t wo"),
    ("__printf_chk __vprintf_chk", 2, "... r1:t wo"),
    ("fprintf vfprintf", 2, "... r1:t rs0 ws0"),
    ("__fprintf_chk __vfprintf_chk", 3, "... r2:t rs0 ws0"),
    ("dprintf vdprintf", 2, "... r1:t wd0"),
    ("puts perror", 1, "r0:t wo"),
    ("putchar", 1, "wo"),
    ("fputs", 2, "r0:t rs1 ws1"),
    ("fputc putc _IO_putc", 2, "rs1 ws1"),
    ("fwrite", 4, "r0:p12 rs3 ws3"),
    ("fread", 4, "rs3 w0:p12"),
    ("fgets", 3, "rs2 w0:t"),
    ("fgetc getc ungetc", 2, "rs0"),
    ("getchar", 0, ""),
    ("fopen fopen64 fdopen freopen", 2, "r0:t r1:t"),
    ("fclose fflush rewind fileno ferror feof clearerr", 1, "rs0 ws0"),
    ("fseek ftell setvbuf setbuf", 4, "rs0 ws0"),
    ("getline", 3, "rs2 w0:c8 w1:c8"),
    ("sscanf __isoc99_sscanf __isoc23_sscanf", 2, "... r0:t m2:t m3:t m4:t m5:t"),
    ("scanf __isoc99_scanf __isoc23_scanf", 1, "... m1:t m2:t m3:t m4:t m5:t"),
    ("fscanf __isoc99_fscanf __isoc23_fscanf", 2, "... rs0 m2:t m3:t m4:t m5:t"),
    ("read", 3, "rd0 w1:R"),
    ("pread pread64", 4, "rd0 w1:R"),
    ("recv", 4, "rd0 w1:R"),
    ("write", 3, "r1:a2 wd0"),
    ("pwrite pwrite64 send", 4, "r1:a2 wd0"),
    ("writev readv", 3, "... rd0 wd0"),
    ("open open64 creat openat", 3, "r0:t"),
    ("close fsync fdatasync isatty dup dup2", 2, ""),
    ("lseek lseek64", 3, "rd0"),
    ("pipe pipe2", 1, "w0:c8"),
    ("stat stat64 lstat fstat fstat64", 2, "w1:c144"),
    ("ftruncate unlink remove rename mkdir rmdir access chdir", 2, ""),
    ("poll", 3, "w0:c8"),
    ("malloc", 1, "fR:a0"),
    ("_Znwm _Znam", 1, "fR:a0"),
    ("_ZnwmSt11align_val_t _ZnamSt11align_val_t", 2, "fR:a0"),
    ("calloc", 2, "fR:p01 wR:p01"),
    ("realloc reallocarray", 2, "r0:c64 mR:a1"),
    ("aligned_alloc memalign", 2, "fR:a1"),
    ("posix_memalign", 3, "w0:c8"),
    ("free _ZdlPv _ZdaPv _ZdlPvm _ZdaPvm cfree malloc_usable_size", 1, ""),
    ("_ZdlPvSt11align_val_t _ZdlPvmSt11align_val_t _ZdaPvSt11align_val_t", 3, ""),
    ("mmap mmap64", 6, "fR:a1 wR:a1"),
    ("munmap mprotect madvise mremap", 3, ""),
    ("abort __stack_chk_fail _ZSt9terminatev", 0, ""),
    ("exit _exit _Exit quick_exit", 1, ""),
    ("__assert_fail __assert_perror_fail __assert", 0, ""),
    ("atexit on_exit __cxa_atexit __cxa_thread_atexit __cxa_thread_atexit_impl __cxa_finalize", 3, ""),
    ("getenv secure_getenv", 1, "r0:t"),
    ("time", 1, "m0:c8"),
    ("gettimeofday clock_gettime timespec_get clock_getres", 2, "m0:c16 m1:c16"),
    ("localtime gmtime ctime", 1, "r0:c8"),
    ("usleep sleep sched_yield clock", 1, ""),
    ("nanosleep", 2, "r0:c16"),
    ("clock_nanosleep", 4, "r2:c16"),
    ("rand random drand48 lrand48", 0, ""),
    ("srand srandom", 1, ""),
    ("rand_r", 1, "r0:c4 w0:c4"),
    ("getrandom getentropy", 2, "w0:a1"),
    ("getpid gettid getppid getuid geteuid pthread_self __errno_location sysconf get_nprocs", 0, ""),
    ("sched_getaffinity", 3, "w2:a1"),
    ("sched_setaffinity sched_getcpu", 3, ""),
    ("pthread_create", 4, "w0:c8"),
    ("thrd_create", 3, "w0:c8"),
    ("pthread_join thrd_join pthread_tryjoin_np pthread_timedjoin_np", 1, ""),
    ("pthread_exit thrd_exit", 1, ""),
    ("pthread_key_create", 2, "w0:c4"),
    ("pthread_getspecific tss_get", 1, ""),
    ("pthread_setspecific tss_set", 2, ""),
    ("sem_getvalue", 2, "w1:c4"),
    ("pthread_getattr_np", 2, "w1:c56"),
    ("pthread_attr_getstack", 3, "w1:c8 w2:c8"),
    ("pthread_setname_np pthread_getname_np pthread_sigmask sigprocmask", 3, ""),
    ("sigaction", 3, "m2:c152"),
    ("signal raise kill pthread_kill sigemptyset sigfillset sigaddset sigaltstack", 3, ""),
    ("setjmp _setjmp sigsetjmp __sigsetjmp", 1, ""),
    ("longjmp _longjmp siglongjmp __longjmp_chk", 2, ""),
    ("__cxa_allocate_exception", 1, "fR:a0"),
    ("__cxa_throw", 1, "r0:c8"),
    ("__cxa_begin_catch __cxa_get_exception_ptr _Unwind_Resume __cxa_rethrow __cxa_end_catch", 1, "r0:c8"),
    ("__cxa_free_exception __gxx_personality_v0 _Unwind_RaiseException _Unwind_DeleteException", 1, ""),
    ("_Unwind_GetIP _Unwind_GetIPInfo _Unwind_Backtrace _Unwind_GetLanguageSpecificData", 2, ""),
    (
        "_Unwind_GetRegionStart _Unwind_SetGR _Unwind_SetIP _Unwind_GetTextRelBase _Unwind_GetDataRelBase",
        2,
        "",
    ),
    ("__tls_get_addr", 1, ""),
    ("syscall", 1, "..."),
    ("dl_iterate_phdr", 2, ""),
    ("dlopen dlsym dlclose dlerror", 2, ""),
    ("__libc_start_main", 3, ""),
    ("__gmon_start__ _ITM_registerTMCloneTable _ITM_deregisterTMCloneTable", 0, ""),
    ("qsort qsort_r", 5, "r0:p12 w0:p12"),
    ("bsearch", 5, "r1:p23"),
    ("getauxval gnu_get_libc_version __pthread_get_minstack", 1, ""),
    (
        "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE",
        3,
        "r1:c8 w0:c8",
    ),
    ("_ZNSt6thread4joinEv _ZNSt6thread6detachEv", 1, "r0:c8 w0:c8"),
    ("_ZNSt18condition_variable10notify_oneEv _ZNSt18condition_variable10notify_allEv", 1, ""),
    ("_ZNSt18condition_variableC1Ev _ZNSt18condition_variableD1Ev", 1, ""),
    ("_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE", 2, ""),
    ("_ZSt20__throw_system_errori _ZSt17__throw_bad_allocv _ZSt20__throw_length_errorPKc", 1, ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_summaries_use_their_length_argument() {
        let touched = Summary::of("memcpy").touched([0x10000, 0x20000, 24, 0, 0, 0], Some(0x10000));
        assert_eq!(touched.reads, [ByteSpan::new(0x20000, 24)]);
        assert_eq!(touched.writes, [ByteSpan::new(0x10000, 24)]);
    }

    #[test]
    fn failed_read_writes_nothing() {
        let touched = Summary::of("read").touched([0, 0x10000, 100, 0, 0, 0], Some(u64::MAX));
        assert_eq!(touched.writes, []);
    }

    #[test]
    fn only_atomic_instrumentation_passes_data() {
        assert_eq!(Summary::of("__tsan_write4").quality, SummaryQuality::NoData);
        let touched = Summary::of("__tsan_atomic32_fetch_add").touched([0x10000, 1, 0, 0, 0, 0], Some(0));
        assert_eq!(
            (touched.reads, touched.writes),
            (vec![ByteSpan::new(0x10000, 4)], vec![ByteSpan::new(0x10000, 4)])
        );
    }

    #[test]
    fn summary_table_effects_parse() {
        for (names, arguments, effects) in TABLE {
            let expected = effects.split_whitespace().filter(|effect| *effect != "...").count();
            let summary = Summary::new(SummaryQuality::Known, *arguments, effects);
            assert_eq!(summary.effects.len(), expected, "{names}");
        }
    }

    #[test]
    fn libc_aliases_share_a_summary() {
        for name in ["memcpy", "memcpy@@GLIBC_2.14", "__GI_memcpy", "__GI___memcpy", "__wrap_memcpy"] {
            assert_eq!(Summary::of(name).quality, SummaryQuality::Known, "{name}");
        }
        assert_eq!(Summary::of("__GI___pthread_get_minstack").quality, SummaryQuality::Known);
    }

    #[test]
    fn functions_outside_table_are_unknown() {
        assert_eq!(Summary::of("frobnicate").quality, SummaryQuality::Unknown);
    }
}
