/* A disk that fails on demand: preloaded, it makes one call on one file fail.
 *
 *   FAULT_PATH    part of the path of the files concerned
 *   FAULT_CALL    write, pread, fsync or ftruncate
 *   FAULT_ERRNO   the number to fail with
 *   FAULT_NTH     the call that fails first, counted from 1 over the files concerned
 *   FAULT_TIMES   how many calls fail from there on (all of them when absent)
 *   FAULT_SHORT   the first failing write writes so many bytes instead, the next ones fail
 *   FAULT_CALL2   a second call on the same files that always fails with FAULT_ERRNO
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int number(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

static int concerns(int fd)
{
    char link[64], path[4096];
    const char *wanted = getenv("FAULT_PATH");
    ssize_t length;
    if (!wanted)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return strstr(path, wanted) != NULL;
}

/* The errno to fail with, or 0; *part is set when only so many bytes are to be written first. */
static int fault(const char *call, int fd, int *part)
{
    static int seen;
    const char *one = getenv("FAULT_CALL"), *other = getenv("FAULT_CALL2");
    int nth = number("FAULT_NTH", 1), times = number("FAULT_TIMES", 1 << 30);
    *part = 0;
    if (other && !strcmp(other, call) && concerns(fd))
        return number("FAULT_ERRNO", EIO);
    if (!one || strcmp(one, call) || !concerns(fd))
        return 0;
    seen++;
    if (seen < nth || seen >= nth + times)
        return 0;
    if (seen == nth)
        *part = number("FAULT_SHORT", 0);
    return number("FAULT_ERRNO", EIO);
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) \
        *(void **)&real = dlsym(RTLD_NEXT, name)

ssize_t write(int fd, const void *data, size_t count)
{
    REAL(ssize_t, "write", int, const void *, size_t);
    int part, error = fault("write", fd, &part);
    if (error && part > 0 && (size_t)part < count)
        return real(fd, data, part);
    if (error) {
        errno = error;
        return -1;
    }
    return real(fd, data, count);
}

#define FAILS(type, symbol, call, declared, passed, ...) \
    type symbol declared \
    { \
        REAL(type, #symbol, __VA_ARGS__); \
        int part, error = fault(call, fd, &part); \
        if (error) { \
            errno = error; \
            return -1; \
        } \
        return real passed; \
    }

FAILS(ssize_t, pread, "pread", (int fd, void *into, size_t count, off_t at), (fd, into, count, at), int, void *, size_t, off_t)
FAILS(ssize_t, pread64, "pread", (int fd, void *into, size_t count, off64_t at), (fd, into, count, at), int, void *, size_t, off64_t)
FAILS(int, fsync, "fsync", (int fd), (fd), int)
FAILS(int, ftruncate, "ftruncate", (int fd, off_t length), (fd, length), int, off_t)
FAILS(int, ftruncate64, "ftruncate", (int fd, off64_t length), (fd, length), int, off64_t)
