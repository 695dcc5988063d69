#define _GNU_SOURCE
#include "spool_file.h"
#include "spool.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "spool files are little-endian"
#endif

enum { TEXT_PIECE = 52 };

struct header {
    char magic[8];
    uint16_t version, slot;
    uint32_t size, process, number;
    int64_t created_ns, created_wall_ns;
    uint64_t dropped, unwritten, refused;
    char boot_id[36], unused[28], host[64];
};
_Static_assert(offsetof(struct header, dropped) == DROPPED_AT && sizeof(struct header) == 192, "header");
_Static_assert(sizeof(struct spool_span) == SLOT_SIZE, "span");

struct text_slot {
    char piece[TEXT_PIECE];
    uint32_t text;
    uint16_t length, number;
    uint8_t unused[4];
};

static int64_t wall_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Up to `length` bytes of a file, without the newline; none if it cannot be read. */
static void read_start(const char *path, char *into, size_t length) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    ssize_t got = read(file, into, length);
    for (ssize_t i = 0; i < got; i++)
        if (into[i] == '\n')
            into[i] = 0;
    close(file);
}

/* A file beyond the limit would not only fail: the kernel would end the process with SIGXFSZ. */
static bool is_allowed(uint32_t size) {
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur;
}

bool file_create(struct spool_file *file, const char *folder, const char *process, uint32_t number,
                 uint32_t size) {
    if (!is_allowed(size))
        return false;
    char path[PATH_MAX];
    struct header header = {.magic = "", .version = 1, .slot = SLOT_SIZE, .size = HEADER_SIZE,
                            .process = (uint32_t)getpid(), .number = number, .created_ns = spool_now(),
                            .created_wall_ns = wall_ns()};
    memcpy(header.magic, "BUBSPOOL", sizeof header.magic);
    read_start("/proc/sys/kernel/random/boot_id", header.boot_id, sizeof header.boot_id);
    read_start("/proc/sys/kernel/hostname", header.host, sizeof header.host);
    int length = snprintf(path, sizeof path, "%s/%020lld-%s-%06u.spool", folder,
                          (long long)header.created_wall_ns, process, number);
    if (length < 0 || (size_t)length >= sizeof path)
        return false;
    int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (descriptor < 0)
        return false;
    /* The mapping keeps the open file, and with it the lock, until the last process that has it ends.
     * Not every file system has locks. */
    (void)flock(descriptor, LOCK_EX | LOCK_NB);
    void *bytes = MAP_FAILED;
    if (posix_fallocate(descriptor, 0, size) == 0)
        bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (bytes == MAP_FAILED) {
        unlink(path);
        return false;
    }
    memcpy(bytes, &header, sizeof header);
    memset(file->texts, 0, sizeof file->texts);
    file->bytes = bytes;
    file->size = size;
    file->number = number;
    file->next_text = 0;
    __atomic_store_n(&file->next, HEADER_SIZE, __ATOMIC_RELEASE);
    return true;
}

void file_unmap(struct spool_file *file) {
    munmap(file->bytes, file->size);
    file->bytes = NULL;
}

uint32_t file_take(struct spool_file *file, uint32_t slots) {
    /* Looked at first, so that asking a full file again and again does not count up past 2^32. */
    if (__atomic_load_n(&file->next, __ATOMIC_RELAXED) >= file->size)
        return 0;
    uint32_t offset = __atomic_fetch_add(&file->next, slots * SLOT_SIZE, __ATOMIC_RELAXED);
    return offset + (uint64_t)slots * SLOT_SIZE <= file->size ? offset : 0;
}

void file_fill(struct spool_file *file, uint32_t offset, const void *bytes, uint8_t type, uint8_t state) {
    unsigned char *slot = file->bytes + offset;
    memcpy(slot, bytes, TYPE_AT);
    slot[TYPE_AT] = type;
    __atomic_store_n(&slot[STATE_AT], state, __ATOMIC_RELEASE);
}

static bool is_text(const struct spool_file *file, uint32_t offset, const char *text, size_t length) {
    for (size_t at = 0;; at += TEXT_PIECE, offset += SLOT_SIZE) {
        const struct text_slot *slot = (const void *)(file->bytes + offset);
        size_t piece = length - at < TEXT_PIECE ? length - at : TEXT_PIECE;
        if (slot->length != length || memcmp(slot->piece, text + at, piece) != 0)
            return false;
        if (at + TEXT_PIECE >= length)
            return true;
    }
}

static uint32_t hash(const char *text, size_t length) {
    uint32_t value = 2166136261u;
    for (size_t i = 0; i < length; i++)
        value = (value ^ (unsigned char)text[i]) * 16777619u;
    return value;
}

/* The length of a text cut to `longest` bytes, between two characters. */
static size_t cut(const char *text, size_t longest) {
    size_t length = strnlen(text, longest + 1);
    if (length <= longest)
        return length;
    for (length = longest; length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80;)
        length--;
    return length;
}

bool file_text(struct spool_file *file, const char *text, size_t longest, uint32_t *number) {
    size_t length = cut(text, longest);
    uint32_t at = hash(text, length) % TEXTS;
    for (int tries = 0; tries < TEXTS; tries++, at = (at + 1) % TEXTS) {
        uint64_t known = __atomic_load_n(&file->texts[at], __ATOMIC_ACQUIRE);
        if (known == 0)
            break;
        if (is_text(file, (uint32_t)(known >> 32), text, length)) {
            *number = (uint32_t)known;
            return true;
        }
    }
    uint32_t pieces = length > TEXT_PIECE ? (uint32_t)((length + TEXT_PIECE - 1) / TEXT_PIECE) : 1;
    uint32_t offset = file_take(file, pieces);
    if (offset == 0)
        return false;
    *number = __atomic_fetch_add(&file->next_text, 1, __ATOMIC_RELAXED);
    for (uint32_t piece = 0; piece < pieces; piece++) {
        struct text_slot slot = {.text = *number, .length = (uint16_t)length, .number = (uint16_t)piece};
        size_t done = (size_t)piece * TEXT_PIECE;
        memcpy(slot.piece, text + done, length - done < TEXT_PIECE ? length - done : TEXT_PIECE);
        file_fill(file, offset + piece * SLOT_SIZE, &slot, SPOOL_TEXT, SPOOL_COMPLETE);
    }
    /* Lost to another thread, or with the table full, the text is written again next time. */
    uint64_t none = 0;
    __atomic_compare_exchange_n(&file->texts[at], &none, (uint64_t)offset << 32 | *number, false,
                                __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    return true;
}

void file_count(struct spool_file *file, uint32_t at, uint64_t total) {
    uint64_t *count = (uint64_t *)(void *)(file->bytes + at);
    uint64_t before = __atomic_load_n(count, __ATOMIC_RELAXED);
    while (before < total &&
           !__atomic_compare_exchange_n(count, &before, total, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}
