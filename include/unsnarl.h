/* unsnarl.h: hints in a program for unsnarl, a concurrency debugger.
 *
 * Header only, for C and C++. There is nothing to link with: the functions below are weak and belong to
 * unsnarl's runtime. In a program that runs without unsnarl each hint costs a test of an address and does
 * nothing. On systems or compilers that unsnarl does not support the hints are empty.
 *
 * A program that is not compiled by `unsnarl cc` must be position-independent (the default of current
 * compilers), or its hints have no effect.
 */
#ifndef UNSNARL_H
#define UNSNARL_H

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)

#ifdef __cplusplus
extern "C" {
#endif

__attribute__((weak)) void __unsnarl_point(const char *name);
__attribute__((weak)) void __unsnarl_checkpoint(void);
__attribute__((weak)) int __unsnarl_controls(void);
__attribute__((weak)) void __unsnarl_fail(const char *name);
__attribute__((weak)) void __unsnarl_undivided(int change);

#ifdef __cplusplus
}
#endif

/* A schedule point: another thread may run here. The name, a literal, is shown in the interleaving. */
#define UNSNARL_POINT(name) (__unsnarl_point ? __unsnarl_point("" name) : (void)0)

/* Under unsnarl, fails the run with an assertion of this name, a literal, if the condition does not hold.
 * Without unsnarl, the condition is not evaluated. */
#define UNSNARL_ASSERT(condition, name)                                                                      \
    (__unsnarl_controls && __unsnarl_controls() && !(condition) ? __unsnarl_fail("" name) : (void)0)

/* The search begins here: up to the first checkpoint, threads run without preemptions. */
#define UNSNARL_CHECKPOINT() (__unsnarl_checkpoint ? __unsnarl_checkpoint() : (void)0)

/* A region without preemption: no other thread runs between these two, unless this one blocks or yields.
 * Regions nest. */
#define UNSNARL_UNDIVIDED_BEGIN() (__unsnarl_undivided ? __unsnarl_undivided(1) : (void)0)
#define UNSNARL_UNDIVIDED_END() (__unsnarl_undivided ? __unsnarl_undivided(-1) : (void)0)

#else

#define UNSNARL_POINT(name) ((void)0)
#define UNSNARL_ASSERT(condition, name) ((void)0)
#define UNSNARL_CHECKPOINT() ((void)0)
#define UNSNARL_UNDIVIDED_BEGIN() ((void)0)
#define UNSNARL_UNDIVIDED_END() ((void)0)

#endif

#ifdef __cplusplus
namespace unsnarl {
/* A region without preemption: no other thread runs while this lives, unless this one blocks or yields. */
class undivided {
public:
    undivided() { UNSNARL_UNDIVIDED_BEGIN(); }
    ~undivided() { UNSNARL_UNDIVIDED_END(); }
    undivided(const undivided &) = delete;
    undivided &operator=(const undivided &) = delete;
};
} // namespace unsnarl
#endif

#endif
