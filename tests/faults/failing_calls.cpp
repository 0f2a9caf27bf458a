// SPDX-License-Identifier: MIT
// A library for LD_PRELOAD. It makes chosen calls of a program to the system fail. It reads these variables:
//   LAZYPRUNE_FAULT        CALL:N:HOW, as below; "list": no call fails, and the log gets "CALL PATH" for each, and at the end "new COUNT"
//   LAZYPRUNE_FAULT_UNDER  FOLDER:FOLDER...: only calls for files in these folders count; files without a path: "socket", "anon_inode"
//   LAZYPRUNE_FAULT_LOG    a file, which gets "CALL PATH" for the first call that fails, and "armed N" after SIGUSR1
// CALL:N:HOW makes the N-th CALL fail, counted from the beginning of main. N+ makes all later ones fail, too. If N is 0, none fails until
// SIGUSR1 comes with a value (sigqueue): the value becomes N, and counting begins anew. If CALL is "new", operator new throws. HOW is the
// number of an errno, or one of these words:
//   short  half of the bytes are read, written, received or sent
//   full   half of the bytes are written, and all later writes fail with ENOSPC
//   cut    after mmap, half of the file is cut off
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <new>
#include <string_view>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace {

constexpr int half = -1, cut = -2;  // not errnos: the call does half of its work; half of the mapped file is cut off

std::string_view call, folders, log_file;  // of the environment
int how = 0;
bool lists = false, repeats = false, fills = false, armed_by_signal = false;
std::atomic<bool> counts{false};
std::atomic<std::size_t> failing{0}, seen{0}, allocated{0};

void log(std::initializer_list<std::string_view> parts) {
  char line[4096];
  std::size_t size = 0;
  for (const std::string_view part : parts) size += part.copy(line + size, sizeof line - size);
  const long file = ::syscall(SYS_openat, AT_FDCWD, log_file.data(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  ::syscall(SYS_write, file, line, size);
  ::syscall(SYS_close, file);
}

void log_number(std::string_view what, std::size_t number) {
  char digits[24];
  log({what, " ", {digits, static_cast<std::size_t>(std::to_chars(digits, digits + sizeof digits, number).ptr - digits)}, "\n"});
}

void arm(int, siginfo_t* info, void*) {
  const int before = errno;
  const auto number = static_cast<std::size_t>(info->si_value.sival_int);
  seen = 0;
  failing = number;
  counts = true;
  log_number("armed", number);
  errno = before;
}

__attribute__((constructor)) void read_environment() {
  const auto variable = [](const char* name) { return std::string_view(std::getenv(name) ? std::getenv(name) : ""); };
  folders = variable("LAZYPRUNE_FAULT_UNDER");
  log_file = variable("LAZYPRUNE_FAULT_LOG");
  const std::string_view fault = variable("LAZYPRUNE_FAULT");
  if ((lists = fault == "list")) return;
  const std::size_t first = fault.find(':'), second = fault.find(':', first + 1);
  if (second == fault.npos) return;
  call = fault.substr(0, first);
  std::size_t number = 0;
  std::from_chars(fault.data() + first + 1, fault.data() + second, number);
  failing = number;
  repeats = fault[second - 1] == '+';
  const std::string_view kind = fault.substr(second + 1);
  fills = kind == "full";
  if (fills || kind == "short")
    how = half;
  else if (kind == "cut")
    how = cut;
  else
    std::from_chars(kind.data(), kind.data() + kind.size(), how);
  armed_by_signal = number == 0;
  if (!armed_by_signal) return;
  struct sigaction action {};
  action.sa_sigaction = arm;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigaction(SIGUSR1, &action, nullptr);
}

/// Counts a call. Returns whether it fails now.
bool takes_turn() {
  const std::size_t n = ++seen, turn = failing;
  return turn > 0 && (n == turn || (n > turn && (repeats || fills)));
}

bool is_under(std::string_view path) {
  for (std::string_view rest = folders; !rest.empty();) {
    const std::size_t end = rest.find(':');
    if (path.starts_with(rest.substr(0, end))) return true;
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
  }
  return false;
}

/// Returns 0 if the call goes on, else its errno, or `half`.
int fault_of(std::string_view name, std::string_view path) {
  if (!counts || !(lists || name == call) || !is_under(path)) return 0;
  if (lists) {
    log({name, " ", path, "\n"});
    return 0;
  }
  if (!takes_turn()) return 0;
  const bool later = seen > failing;
  if (!later) log({name, " ", path, "\n"});
  return fills && later ? ENOSPC : how;
}

/// Writes the name of /proc's link to an open file.
void name_link(char (&link)[32], int file) {
  std::strcpy(link, "/proc/self/fd/");
  *std::to_chars(link + std::strlen(link), link + sizeof link - 1, file).ptr = '\0';
}

void cut_file(int file, std::size_t size) {
  char link[32];
  name_link(link, file);
  ::syscall(SYS_truncate, link, size);
}

int fault_of(std::string_view name, int file) {
  const int before = errno;
  char link[32], path[4096];
  name_link(link, file);
  const long size = ::syscall(SYS_readlink, link, path, sizeof path);
  errno = before;
  return fault_of(name, std::string_view(path, size > 0 ? static_cast<std::size_t>(size) : 0));
}

/// Sets errno if the call fails. Returns whether it does.
template <class What>
bool fails(std::string_view name, What what) {
  const int fault = fault_of(name, what);
  if (fault != 0) errno = fault;
  return fault != 0;
}

template <class Function>
Function* real(Function*, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

std::size_t halved(std::size_t size) { return size > 1 ? size / 2 : size; }

/// Returns the message with half of its first part, which `first` then holds.
msghdr half_of(msghdr message, iovec& first) {
  first = {message.msg_iov->iov_base, halved(message.msg_iov->iov_len)};
  message.msg_iov = &first;
  message.msg_iovlen = 1;
  return message;
}

void* allocate(std::size_t size, std::size_t alignment) noexcept {
  if (lists)
    allocated += counts ? 1 : 0;
  else if (counts && call == "new" && takes_turn()) {
    if (seen == failing) log({"new \n"});
    return nullptr;
  }
  if (size == 0) size = 1;
  return alignment == 0 ? std::malloc(size) : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(std::size_t size, std::size_t alignment = 0) {
  if (void* const at = allocate(size, alignment)) return at;
  throw std::bad_alloc();
}

__attribute__((destructor)) void log_allocations() {
  if (lists) log_number("new", allocated);
}

int (*program_main)(int, char**, char**);

int counted_main(int argc, char** argv, char** environment) {
  counts = !armed_by_signal;
  return program_main(argc, argv, environment);
}

}  // namespace

#define REAL(name) static const auto next = real(&::name, #name)

extern "C" {

using main_function = int(int, char**, char**);
int __libc_start_main(main_function* main, int argc, char** argv, main_function* init, void (*fini)(), void (*rtld_fini)(), void* stack) {
  static const auto next = real(&::__libc_start_main, "__libc_start_main");
  program_main = main;
  return next(counted_main, argc, argv, init, fini, rtld_fini, stack);
}

int open(const char* path, int flags, ...) {
  REAL(open);
  std::va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return fails("open", path) ? -1 : next(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open(path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) {
  REAL(fopen);
  return fails("open", path) ? nullptr : next(path, mode);
}
FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }
DIR* opendir(const char* path) {
  REAL(opendir);
  return fails("opendir", path) ? nullptr : next(path);
}

ssize_t read(int file, void* to, std::size_t size) {
  REAL(read);
  const int fault = fault_of("read", file);
  if (fault > 0) errno = fault;
  return fault > 0 ? -1 : next(file, to, fault == half ? halved(size) : size);
}
ssize_t pread(int file, void* to, std::size_t size, off_t at) {
  REAL(pread);
  const int fault = fault_of("pread", file);
  if (fault > 0) errno = fault;
  return fault > 0 ? -1 : next(file, to, fault == half ? halved(size) : size, at);
}
ssize_t preadv2(int file, const iovec* to, int parts, off_t at, int flags) {
  REAL(preadv2);
  const int fault = fault_of("preadv2", file);
  if (fault > 0) errno = fault;
  const iovec less{to->iov_base, halved(to->iov_len)};
  return fault > 0 ? -1 : next(file, fault == half ? &less : to, fault == half ? 1 : parts, at, flags);
}
ssize_t preadv64v2(int file, const iovec* to, int parts, off64_t at, int flags) { return preadv2(file, to, parts, at, flags); }
ssize_t pread64(int file, void* to, std::size_t size, off64_t at) { return pread(file, to, size, at); }
ssize_t write(int file, const void* from, std::size_t size) {
  REAL(write);
  const int fault = fault_of("write", file);
  if (fault > 0) errno = fault;
  return fault > 0 ? -1 : next(file, from, fault == half ? halved(size) : size);
}

int fsync(int file) {
  REAL(fsync);
  return fails("fsync", file) ? -1 : next(file);
}
int close(int file) {  // a descriptor is closed even if its close fails
  REAL(close);
  const int fault = fault_of("close", file), done = next(file);
  if (fault > 0) errno = fault;
  return fault > 0 ? -1 : done;
}
int ftruncate(int file, off_t size) noexcept {
  REAL(ftruncate);
  return fails("ftruncate", file) ? -1 : next(file, size);
}
int ftruncate64(int file, off64_t size) noexcept { return ftruncate(file, size); }
off_t lseek(int file, off_t by, int from) noexcept {
  REAL(lseek);
  return fails("lseek", file) ? -1 : next(file, by, from);
}
off64_t lseek64(int file, off64_t by, int from) noexcept { return lseek(file, by, from); }
int flock(int file, int operation) noexcept {
  REAL(flock);
  return fails("flock", file) ? -1 : next(file, operation);
}
int fchmod(int file, mode_t mode) noexcept {
  REAL(fchmod);
  return fails("fchmod", file) ? -1 : next(file, mode);
}
int fchown(int file, uid_t user, gid_t group) noexcept {
  REAL(fchown);
  return fails("fchown", file) ? -1 : next(file, user, group);
}
int fstat(int file, struct stat* to) noexcept {
  REAL(fstat);
  return fails("fstat", file) ? -1 : next(file, to);
}
int stat(const char* path, struct stat* to) noexcept {
  static const auto next = real(static_cast<int (*)(const char*, struct stat*)>(nullptr), "stat");
  return fails("stat", path) ? -1 : next(path, to);
}
int lstat(const char* path, struct stat* to) noexcept {
  REAL(lstat);
  return fails("stat", path) ? -1 : next(path, to);
}
int mkdir(const char* path, mode_t mode) noexcept {
  REAL(mkdir);
  return fails("mkdir", path) ? -1 : next(path, mode);
}
int rename(const char* from, const char* to) noexcept {
  REAL(rename);
  return fails("rename", to) ? -1 : next(from, to);
}
int unlink(const char* path) noexcept {
  REAL(unlink);
  return fails("unlink", path) ? -1 : next(path);
}
void* mmap(void* at, std::size_t size, int protection, int flags, int file, off_t offset) noexcept {
  REAL(mmap);
  const int fault = file >= 0 ? fault_of("mmap", file) : 0;
  if (fault > 0) errno = fault;
  void* const mapped = fault > 0 ? MAP_FAILED : next(at, size, protection, flags, file, offset);
  if (fault == cut) cut_file(file, size / 2);
  return mapped;
}
void* mmap64(void* at, std::size_t size, int protection, int flags, int file, off64_t offset) noexcept {
  return mmap(at, size, protection, flags, file, offset);
}

// recvmsg counts as "recv", and sendmsg as "send", because versions of Boost differ in which of them they call.
int accept(int file, sockaddr* from, socklen_t* size) {
  REAL(accept);
  return fails("accept", file) ? -1 : next(file, from, size);
}
ssize_t recv(int file, void* to, std::size_t size, int flags) {
  REAL(recv);
  const int fault = fault_of("recv", file);
  if (fault > 0) errno = fault;
  return fault > 0 ? -1 : next(file, to, fault == half ? halved(size) : size, flags);
}
ssize_t recvmsg(int file, msghdr* to, int flags) {
  REAL(recvmsg);
  const int fault = fault_of("recv", file);
  if (fault > 0) errno = fault;
  iovec first;
  msghdr less = half_of(*to, first);
  return fault > 0 ? -1 : next(file, fault == half ? &less : to, flags);
}
ssize_t send(int file, const void* from, std::size_t size, int flags) {
  REAL(send);
  const int fault = fault_of("send", file);
  if (fault > 0) errno = fault;
  return fault > 0 ? -1 : next(file, from, fault == half ? halved(size) : size, flags);
}
ssize_t sendmsg(int file, const msghdr* from, int flags) {
  REAL(sendmsg);
  const int fault = fault_of("send", file);
  if (fault > 0) errno = fault;
  iovec first;
  const msghdr less = half_of(*from, first);
  return fault > 0 ? -1 : next(file, fault == half ? &less : from, flags);
}
int setsockopt(int file, int level, int name, const void* value, socklen_t size) noexcept {
  REAL(setsockopt);
  return fails("setsockopt", file) ? -1 : next(file, level, name, value, size);
}
int shutdown(int file, int directions) noexcept {
  REAL(shutdown);
  return fails("shutdown", file) ? -1 : next(file, directions);
}
int poll(pollfd* files, nfds_t count, int milliseconds) {
  REAL(poll);
  return count > 0 && fails("poll", files->fd) ? -1 : next(files, count, milliseconds);
}
int epoll_ctl(int epoll, int operation, int file, epoll_event* event) noexcept {  // only EPOLL_CTL_ADD needs memory
  REAL(epoll_ctl);
  return operation == EPOLL_CTL_ADD && fails("epoll_ctl", file) ? -1 : next(epoll, operation, file, event);
}
int epoll_wait(int epoll, epoll_event* events, int most, int milliseconds) {
  REAL(epoll_wait);
  return fails("epoll_wait", epoll) ? -1 : next(epoll, events, most, milliseconds);
}

}  // extern "C"

void* operator new(std::size_t size) { return allocate_or_throw(size); }
void* operator new[](std::size_t size) { return allocate_or_throw(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, 0); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, 0); }
void* operator new(std::size_t size, std::align_val_t to) { return allocate_or_throw(size, static_cast<std::size_t>(to)); }
void* operator new[](std::size_t size, std::align_val_t to) { return allocate_or_throw(size, static_cast<std::size_t>(to)); }
void operator delete(void* at) noexcept { std::free(at); }
void operator delete[](void* at) noexcept { std::free(at); }
void operator delete(void* at, std::size_t) noexcept { std::free(at); }
void operator delete[](void* at, std::size_t) noexcept { std::free(at); }
void operator delete(void* at, const std::nothrow_t&) noexcept { std::free(at); }
void operator delete[](void* at, const std::nothrow_t&) noexcept { std::free(at); }
void operator delete(void* at, std::align_val_t) noexcept { std::free(at); }
void operator delete[](void* at, std::align_val_t) noexcept { std::free(at); }
void operator delete(void* at, std::size_t, std::align_val_t) noexcept { std::free(at); }
void operator delete[](void* at, std::size_t, std::align_val_t) noexcept { std::free(at); }
