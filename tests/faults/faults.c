/* Stands between a program and the C library, and makes its n-th write, sync, rename … fail, or writes down what it wrote.

   Preloaded (LD_PRELOAD), it does nothing until the variable LASTRO_FAULTS names a file with a `struct plan`, which the
   test writes and reads (tests/faults/injector.py). The first process that finds it is the one whose calls count, and
   its forks; what these execute is not. Calls of the library to itself, as by `fprintf`, are not seen. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum kind { OUTPUT, WRITE, SYNC, RENAME, MKDIR, UNLINK, OPEN, READ, FORK, EXEC, THREAD, CLOCK, KINDS };
enum record { WROTE, TRUNCATED, SYNCED, RENAMED, MADE, REMOVED, CREATED };

struct plan {
    int32_t kind, error;     /* what fails, and with which number; 0: a write is short; of a clock, seconds */
    int64_t nth;             /* the one that fails; 0: none */
    int32_t on, owner;       /* all later ones fail, too; the process whose calls count */
    int64_t counts[KINDS];   /* calls of each kind up to now */
    int32_t hit, log;        /* how many have failed; whether to record */
    char what[PATH_MAX];     /* the first call that failed */
};

static struct plan *plan;
static int log_fd = -1;

static struct plan *armed(void) {
    const char *file;
    int fd, nobody = 0;
    if (plan) return plan->owner ? plan : NULL;
    if (!(file = getenv("LASTRO_FAULTS"))) return NULL;
    if ((fd = syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC)) < 0) return NULL;
    struct plan *found = mmap(NULL, sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (found == MAP_FAILED) return NULL;
    if (!__atomic_compare_exchange_n(&found->owner, &nobody, getpid(), 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        munmap(found, sizeof *found);
        unsetenv("LASTRO_FAULTS"); /* the child of a process whose calls count */
        return NULL;
    }
    if (found->log) {
        char log[PATH_MAX];
        snprintf(log, sizeof log, "%s.log", file);
        fd = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        log_fd = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 700);
        syscall(SYS_close, fd);
    }
    return plan = found;
}

static void name_of(int fd, const char *path, char *full) {
    char link[40];
    ssize_t length = 0;
    if (path && (path[0] == '/' || fd < 0)) {
        if (path[0] != '/' && getcwd(full, PATH_MAX / 2)) length = strlen(full);
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        length = readlink(link, full, PATH_MAX / 2);
        if (length < 0) length = 0;
    }
    full[length] = 0;
    if (path) snprintf(full + length, PATH_MAX / 2, "%s%s", length ? "/" : "", path);
}

/* Whether this call is the one. */
static int fails(enum kind kind, const char *call, int fd, const char *path) {
    struct plan *now = armed();
    if (!now) return 0;
    int64_t nth = __atomic_add_fetch(&now->counts[kind], 1, __ATOMIC_SEQ_CST);
    if (now->nth == 0 || kind != (enum kind)now->kind || nth < now->nth || (nth > now->nth && !now->on)) return 0;
    if (__atomic_fetch_add(&now->hit, 1, __ATOMIC_SEQ_CST) == 0) {
        char full[PATH_MAX] = "";
        if (fd != INT_MIN) name_of(fd, path, full);
        snprintf(now->what, sizeof now->what, "%s %.4000s", call, full);
    }
    errno = now->error ? now->error : ENOSPC;
    return 1;
}

static int regular(int fd) {
    struct stat found;
    int before = errno, is = armed() && syscall(SYS_fstat, fd, &found) == 0 && S_ISREG(found.st_mode);
    errno = before;
    return is;
}

static void record(enum record kind, int fd, const char *path, const char *to, int64_t offset, const void *data,
                   int64_t length) {
    char name[PATH_MAX] = "";
    int before = errno;
    if (log_fd < 0 || !armed()) return;
    name_of(fd, path, name);
    int64_t head[5] = {kind, offset, length, (int64_t)strlen(name), to ? (int64_t)strlen(to) : 0};
    size_t size = sizeof head + head[3] + head[4] + (data ? length : 0);
    char *line = malloc(size), *at = line;
    memcpy(at, head, sizeof head), at += sizeof head;
    memcpy(at, name, head[3]), at += head[3];
    if (to) memcpy(at, to, head[4]), at += head[4];
    if (data) memcpy(at, data, length);
    syscall(SYS_write, log_fd, line, size);
    free(line);
    errno = before;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define NOWHERE INT_MIN
#define NOT_AT_ALL ((size_t)-1)

/* Writes */

static ssize_t short_of(size_t length) { return !armed()->error && length > 1 ? (ssize_t)length / 2 : -1; }

ssize_t write(int fd, const void *data, size_t length) {
    if (regular(fd)) {
        if (fails(fd == 1 || fd == 2 ? OUTPUT : WRITE, "write", fd, NULL) && (length = short_of(length)) == NOT_AT_ALL) return -1;
        int64_t at = log_fd < 0 ? 0 : lseek(fd, 0, SEEK_CUR);
        ssize_t done = syscall(SYS_write, fd, data, length);
        if (done > 0) record(WROTE, fd, NULL, NULL, at, data, done);
        return done;
    }
    return syscall(SYS_write, fd, data, length);
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t at) {
    if (fails(WRITE, "pwrite", fd, NULL) && (length = short_of(length)) == NOT_AT_ALL) return -1;
    ssize_t done = syscall(SYS_pwrite64, fd, data, length, at);
    if (done > 0) record(WROTE, fd, NULL, NULL, at, data, done);
    return done;
}
ssize_t pwrite(int fd, const void *data, size_t length, off_t at) { return pwrite64(fd, data, length, at); }

int ftruncate64(int fd, off64_t length) {
    if (fails(WRITE, "ftruncate", fd, NULL) && armed()->error) return -1;
    int done = syscall(SYS_ftruncate, fd, length);
    if (done == 0) record(TRUNCATED, fd, NULL, NULL, length, NULL, 0);
    return done;
}
int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

int posix_fallocate64(int fd, off64_t at, off64_t length) {
    if (fails(WRITE, "fallocate", fd, NULL) && armed()->error) return errno;
    return REAL(posix_fallocate64)(fd, at, length);
}
int posix_fallocate(int fd, off_t at, off_t length) { return posix_fallocate64(fd, at, length); }

ssize_t sendfile64(int to, int from, off64_t *at, size_t length) {
    if (fails(WRITE, "sendfile", to, NULL) && armed()->error) return -1;
    return REAL(sendfile64)(to, from, at, length);
}
ssize_t sendfile(int to, int from, off_t *at, size_t length) { return sendfile64(to, from, at, length); }

/* Syncs, which are only counted: a test may lose power, and disks are slow */

#define SYNCS(name)                                       \
    int name(int fd) {                                    \
        if (fails(SYNC, #name, fd, NULL)) return -1;      \
        if (!armed()) return REAL(name)(fd);              \
        record(SYNCED, fd, NULL, NULL, 0, NULL, 0);       \
        return 0;                                         \
    }
SYNCS(fsync)
SYNCS(fdatasync)

/* Names */

int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    char target[PATH_MAX] = "";
    if (fails(RENAME, "rename", from, old)) return -1;
    int done = syscall(SYS_renameat2, from, old, to, new, flags);
    if (done == 0) name_of(to, new, target), record(RENAMED, from, old, target, 0, NULL, 0);
    return done;
}
int renameat(int from, const char *old, int to, const char *new) { return renameat2(from, old, to, new, 0); }
int rename(const char *old, const char *new) { return renameat2(AT_FDCWD, old, AT_FDCWD, new, 0); }

int mkdirat(int at, const char *path, mode_t mode) {
    if (fails(MKDIR, "mkdir", at, path)) return -1;
    int done = syscall(SYS_mkdirat, at, path, mode);
    if (done == 0) record(MADE, at, path, NULL, 0, NULL, 0);
    return done;
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int unlinkat(int at, const char *path, int flags) {
    if (fails(UNLINK, "unlink", at, path)) return -1;
    int done = syscall(SYS_unlinkat, at, path, flags);
    if (done == 0) record(REMOVED, at, path, NULL, 0, NULL, 0);
    return done;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

/* Descriptors */

int openat64(int at, const char *path, int flags, ...) {
    mode_t mode = 0;
    struct stat found;
    if (flags & (O_CREAT | __O_TMPFILE)) {
        va_list rest;
        va_start(rest, flags), mode = va_arg(rest, mode_t), va_end(rest);
    }
    if (fails(OPEN, "open", at, path)) return -1;
    int is_new = log_fd >= 0 && flags & O_CREAT && syscall(SYS_newfstatat, at, path, &found, 0) != 0;
    int fd = syscall(SYS_openat, at, path, flags, mode);
    if (fd >= 0 && is_new) record(CREATED, at, path, NULL, 0, NULL, 0);
    if (fd >= 0 && !is_new && flags & O_TRUNC) record(TRUNCATED, fd, NULL, NULL, 0, NULL, 0);
    return fd;
}
#define OPENS(name, head, at)                                             \
    int name head {                                                       \
        mode_t mode = 0;                                                  \
        if (flags & (O_CREAT | __O_TMPFILE)) {                            \
            va_list rest;                                                 \
            va_start(rest, flags), mode = va_arg(rest, mode_t), va_end(rest); \
        }                                                                 \
        return openat64(at, path, flags, mode);                           \
    }
OPENS(open64, (const char *path, int flags, ...), AT_FDCWD)
OPENS(open, (const char *path, int flags, ...), AT_FDCWD)
OPENS(openat, (int at, const char *path, int flags, ...), at)

FILE *fopen64(const char *path, const char *mode) {
    return fails(OPEN, "fopen", AT_FDCWD, path) ? NULL : REAL(fopen64)(path, mode);
}
FILE *fopen(const char *path, const char *mode) { return fopen64(path, mode); }
DIR *opendir(const char *path) { return fails(OPEN, "opendir", AT_FDCWD, path) ? NULL : REAL(opendir)(path); }
int pipe2(int ends[2], int flags) { return fails(OPEN, "pipe", NOWHERE, NULL) ? -1 : (int)syscall(SYS_pipe2, ends, flags); }
int socket(int domain, int type, int protocol) {
    return fails(OPEN, "socket", NOWHERE, NULL) ? -1 : (int)syscall(SYS_socket, domain, type, protocol);
}

/* Reads */

static int on_disk(int fd) {
    char name[PATH_MAX];
    name_of(fd, NULL, name);
    return strncmp(name, "/proc/", 6) != 0 && strncmp(name, "/sys/", 5) != 0;
}

ssize_t read(int fd, void *data, size_t length) {
    if (regular(fd) && on_disk(fd) && fails(READ, "read", fd, NULL)) return -1;
    return syscall(SYS_read, fd, data, length);
}
ssize_t pread64(int fd, void *data, size_t length, off64_t at) {
    return fails(READ, "pread", fd, NULL) ? -1 : syscall(SYS_pread64, fd, data, length, at);
}
ssize_t pread(int fd, void *data, size_t length, off_t at) { return pread64(fd, data, length, at); }

/* Processes */

pid_t fork(void) { return fails(FORK, "fork", NOWHERE, NULL) ? -1 : REAL(fork)(); }
pid_t vfork(void) { return fork(); } /* a child of vfork may not return from here */
int execve(const char *path, char *const words[], char *const environment[]) {
    return fails(EXEC, "exec", AT_FDCWD, path) ? -1 : REAL(execve)(path, words, environment);
}
int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *with) {
    return fails(THREAD, "thread", NOWHERE, NULL) ? errno : REAL(pthread_create)(thread, how, run, with);
}

/* The wall clock, which somebody sets */

int clock_gettime(clockid_t clock, struct timespec *now) {
    int done = syscall(SYS_clock_gettime, clock, now);
    if (done == 0 && clock == CLOCK_REALTIME && fails(CLOCK, "clock", NOWHERE, NULL)) now->tv_sec += plan->error;
    return done;
}
