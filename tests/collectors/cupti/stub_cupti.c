/* A stub of libcupti.so.12 or .13: records as large as the real ones', of work that a test makes up.
 *
 * Like the real one it hands out a buffer only when all that is in it has ended, unless it is forced to,
 * counts what it has no buffer for, and numbers calls with one counter. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { KERNEL_SIZE = STUB_MAJOR == 12 ? 208 : 216, MOST_UNFINISHED = 64 };

typedef void (*callback)(void *, int, uint32_t, const void *);
typedef void (*requested)(uint8_t **, size_t *, size_t *);
typedef void (*completed)(void *, uint32_t, uint8_t *, size_t, size_t);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static callback subscriber;
static int call_enabled;
static requested give;
static completed take;
static uint8_t enabled[64], *buffer;
static size_t size, used, dropped;
static uint32_t correlation, unfinished[MOST_UNFINISHED];
static int unfinished_count;

static void on_call(void) {
    struct {
        uint32_t site;
        const void *unused[7];
        uint32_t correlation;
    } about = {0, {0}, __atomic_add_fetch(&correlation, 1, __ATOMIC_SEQ_CST)};
    if (subscriber != NULL && call_enabled)
        subscriber(NULL, 1, 2, &about);
}

__attribute__((constructor)) static void start(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    void (**hook)(void) = driver != NULL ? dlsym(driver, "stub_on_call") : NULL;
    if (hook != NULL)
        *hook = on_call;
}

static size_t size_of(uint32_t kind) {
    return kind == 10 ? KERNEL_SIZE : kind == 22 ? 96 : 88;
}

static void hand_out(void) {
    uint8_t *full = buffer;
    size_t valid = used;
    buffer = NULL;
    if (full != NULL)
        take(NULL, 0, full, size, valid);
}

static void add(const void *record, uint32_t kind) {
    if (!enabled[kind])
        return;
    if (buffer != NULL && used + size_of(kind) > size)
        hand_out();
    if (buffer == NULL) {
        size_t most;
        give(&buffer, &size, &most);
        used = 0;
    }
    if (buffer == NULL) {
        dropped++;
        return;
    }
    memcpy(buffer + used, record, size_of(kind));
    used += size_of(kind);
}

/* Names outlive who told them, and are told by one pointer each. */
static const char *kept(const char *name) {
    static char *names[256];
    int i = 0;
    while (names[i] != NULL && strcmp(names[i], name) != 0)
        i++;
    if (names[i] == NULL)
        names[i] = strdup(name);
    return names[i];
}

#define SET(offset, type, value) (*(type *)(void *)(record + (offset)) = (value))

/* What a test makes happen: a kernel, with an end of 0 for one that has not ended. */
uint32_t stub_kernel(const char *name, uint32_t device, uint32_t stream, uint64_t begin, uint64_t end,
                     uint32_t graph, uint32_t of_launch) {
    _Alignas(8) uint8_t record[KERNEL_SIZE] = {0};
    pthread_mutex_lock(&lock);
    uint32_t number = of_launch ? of_launch : __atomic_add_fetch(&correlation, 1, __ATOMIC_SEQ_CST);
    SET(0, uint32_t, 10), SET(16, uint64_t, begin), SET(24, uint64_t, end), SET(40, uint32_t, device);
    SET(44, uint32_t, 1), SET(48, uint32_t, stream), SET(92, uint32_t, number), SET(156, uint32_t, graph);
    SET(104, const char *, kept(name));
    if (end == 0)
        unfinished[unfinished_count++] = number;
    add(record, 10);
    pthread_mutex_unlock(&lock);
    return number;
}

/* The kernel has ended. */
void stub_end(uint32_t number, uint64_t end) {
    pthread_mutex_lock(&lock);
    for (size_t at = 0; buffer != NULL && at < used; at += size_of(*(uint32_t *)(void *)(buffer + at)))
        if (*(uint32_t *)(void *)(buffer + at) == 10 && *(uint32_t *)(void *)(buffer + at + 92) == number)
            *(uint64_t *)(void *)(buffer + at + 24) = end;
    for (int i = 0; i < unfinished_count; i++)
        if (unfinished[i] == number)
            unfinished[i] = unfinished[--unfinished_count];
    pthread_mutex_unlock(&lock);
}

uint32_t stub_copy(uint32_t kind, uint32_t copy_kind, uint64_t bytes, uint32_t device, uint32_t other,
                   uint64_t begin, uint64_t end) {
    _Alignas(8) uint8_t record[96] = {0};
    pthread_mutex_lock(&lock);
    uint32_t number = __atomic_add_fetch(&correlation, 1, __ATOMIC_SEQ_CST);
    SET(0, uint32_t, kind), SET(4, uint8_t, (uint8_t)copy_kind), SET(8, uint64_t, bytes);
    SET(16, uint64_t, begin), SET(24, uint64_t, end), SET(32, uint32_t, device), SET(36, uint32_t, 1);
    SET(40, uint32_t, 7);
    if (kind == 22)
        SET(44, uint32_t, device), SET(52, uint32_t, other), SET(60, uint32_t, number);
    else
        SET(44, uint32_t, number);
    add(record, kind);
    pthread_mutex_unlock(&lock);
    return number;
}

/* As many records found no room. */
void stub_drop(uint32_t count) {
    pthread_mutex_lock(&lock);
    dropped += count;
    pthread_mutex_unlock(&lock);
}

int cuptiGetVersion(uint32_t *version) {
    *version = STUB_MAJOR * 10000;
    return 0;
}

int cuptiGetResultString(int result, const char **text) {
    (void)result;
    *text = "CUPTI_ERROR_STUB";
    return 0;
}

int cuptiSubscribe(void **handle, callback function, void *data) {
    (void)data;
    if (getenv("STUB_CUPTI_HELD") != NULL)
        return 39;
    subscriber = function;
    *handle = &subscriber;
    return 0;
}

int cuptiEnableCallback(uint32_t enable, void *handle, int domain, uint32_t call) {
    (void)handle;
    call_enabled = enable && domain == 1 && call == 2;
    return 0;
}

int cuptiActivityRegisterTimestampCallback(uint64_t (*now)(void)) {
    return now() != 0 ? 0 : 1;
}

int cuptiActivityRegisterCallbacks(requested on_request, completed on_complete) {
    give = on_request;
    take = on_complete;
    return 0;
}

int cuptiActivitySetAttribute(int attribute, size_t *length, void *value) {
    return attribute == 5 && *length == 1 && *(uint8_t *)value == 1 ? 0 : 1;
}

int cuptiActivityEnable(int kind) {
    enabled[kind] = 1;
    return getenv("STUB_CUPTI_FAILS") != NULL ? 15 : 0;
}

int cuptiActivityFlushAll(uint32_t flag) {
    pthread_mutex_lock(&lock);
    if (unfinished_count == 0 || flag == 1)
        hand_out();
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuptiActivityGetNextRecord(uint8_t *bytes, size_t valid, void **record) {
    uint8_t *next = *record == NULL ? bytes : (uint8_t *)*record + size_of(*(uint32_t *)*record);
    if (next >= bytes + valid)
        return 12;
    *record = next;
    return 0;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count) {
    (void)context, (void)stream;
    pthread_mutex_lock(&lock);
    *count = dropped;
    dropped = 0;
    pthread_mutex_unlock(&lock);
    return 0;
}
