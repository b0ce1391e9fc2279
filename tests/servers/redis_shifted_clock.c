/* Shifts the wall clock of one process while it runs: preload it, and write the offset in
 * microseconds, eight bytes as this machine orders them, into the file CLOCK_SHIFT names.
 * Redis asks gettimeofday for all that it decides by the time of day. Nothing here allocates:
 * the server's allocator may ask for the time before it is ready. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t none;
static const volatile int64_t *shift = &none;

__attribute__((constructor)) static void find_shift(void) {
  const char *path = getenv("CLOCK_SHIFT");
  int file = path ? open(path, O_RDONLY) : -1;
  if (file < 0) {
    return;
  }
  void *page = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
  if (page != MAP_FAILED) {
    shift = page;
  }
  close(file);
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone;
  struct timespec real;
  if (syscall(SYS_clock_gettime, CLOCK_REALTIME, &real) != 0) {
    return -1;
  }
  int64_t shifted = real.tv_sec * INT64_C(1000000) + real.tv_nsec / 1000 + *shift;
  now->tv_sec = shifted / 1000000;
  now->tv_usec = shifted % 1000000;
  return 0;
}
