"""A folder that is as slow as a network drive in trouble, for processes that are told to find it so."""

import os
import subprocess
from pathlib import Path

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int is_slow(void) {
  const char *sign = getenv("SLOW_DRIVE_SIGN");
  return sign && syscall(SYS_faccessat, AT_FDCWD, sign, F_OK) == 0;
}

static void wait_for(const char *path) {
  const char *folder = getenv("SLOW_DRIVE"), *seconds = getenv("SLOW_DRIVE_SECONDS");
  if (!folder || !seconds || !path || strncmp(path, folder, strlen(folder)) || !is_slow()) return;
  double time = atof(seconds);
  struct timespec left = {(time_t)time, (long)((time - (time_t)time) * 1e9)};
  while (nanosleep(&left, &left)) {}
}

#define REAL(name) ((decltype(&name))dlsym(RTLD_NEXT, #name))
#define OPEN(name, at, given) \
  extern "C" int name(at const char *path, int flags, ...) { \
    va_list more; \
    va_start(more, flags); \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
    va_end(more); \
    wait_for(path); \
    return REAL(name) given; \
  }
#define LOOK(type, name, taken, given) \
  extern "C" type name taken { \
    wait_for(path); \
    return REAL(name) given; \
  }
#define COMMA ,

OPEN(open, , (path, flags, mode))
OPEN(open64, , (path, flags, mode))
OPEN(openat, int at COMMA, (at, path, flags, mode))
OPEN(openat64, int at COMMA, (at, path, flags, mode))
LOOK(int, stat, (const char *path, struct stat *to), (path, to))
LOOK(int, stat64, (const char *path, struct stat64 *to), (path, to))
LOOK(int, lstat, (const char *path, struct stat *to), (path, to))
LOOK(int, lstat64, (const char *path, struct stat64 *to), (path, to))
LOOK(int, fstatat, (int at, const char *path, struct stat *to, int flags), (at, path, to, flags))
LOOK(int, fstatat64, (int at, const char *path, struct stat64 *to, int flags), (at, path, to, flags))
LOOK(int, statx, (int at, const char *path, int flags, unsigned mask, struct statx *to),
     (at, path, flags, mask, to))
LOOK(int, access, (const char *path, int mode), (path, mode))
LOOK(int, mkdir, (const char *path, mode_t mode), (path, mode))
LOOK(int, rename, (const char *from, const char *path), (from, path))
LOOK(int, unlink, (const char *path), (path))
LOOK(DIR *, opendir, (const char *path), (path))
"""
"""Stands before the C library; what is open already, and what is mapped, is as fast as ever."""


class SlowDrive:
    """Made fast; slow from `slow()` on."""

    def __init__(self, folder: Path, room: Path, seconds: float) -> None:
        """Find `folder` slow.

        Args:
            folder: everything below it.
            room: where the library and the sign are put.
            seconds: that each look at a name takes.
        """
        self._sign = room / "drive-is-slow"
        library = room / "slow_drive.so"
        command = ["g++", "-shared", "-fPIC", "-w", "-x", "c++", "-", "-o", str(library), "-ldl"]
        subprocess.run(command, input=SOURCE, text=True, check=True, timeout=60)
        self.environment = {
            "LD_PRELOAD": str(library),
            "SLOW_DRIVE": str(folder) + os.sep,
            "SLOW_DRIVE_SECONDS": str(seconds),
            "SLOW_DRIVE_SIGN": str(self._sign),
        }

    def slow(self) -> None:
        """From now on."""
        self._sign.touch()

    def fast(self) -> None:
        """As before."""
        self._sign.unlink()
