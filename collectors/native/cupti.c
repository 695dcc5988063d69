/* Records what CUDA devices do: every kernel, copy and memset, as CUPTI's activity interface tells them.
 *
 * libcuda loads this library because CUDA_INJECTION64_PATH names it, and calls InitializeInjection once
 * per process. From then on CUPTI fills buffers; a thread of ours has it hand them out and writes what is
 * in them into the spool, several times a second, since engines end by being killed. The engine's own
 * threads only take and give back buffers.
 *
 * docs/kernels.md tells how it is used, docs/spool-format.md what is written.
 */
#define _GNU_SOURCE
#include "cupti_api.h"
#include "cupti_devices.h"
#include "cupti_names.h"
#include "spool.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Small, because CUPTI hands out a buffer only when all that is in it has ended, or it is full. */
enum { BUFFER_SIZE = 64 << 10, MOST_BUFFERS = 1024 };
static const int64_t FLUSH_NS = 200000000;
enum { PATIENCE_S = 2 };

/* An activity as it stands in its slot: docs/spool-format.md, type 8. */
struct activity_slot {
    int64_t begin_ns, end_ns, bytes;
    uint32_t correlation, context, stream, graph, name;
    int32_t peer;
    uint16_t device;
    uint8_t kind, copy_kind, unused[10];
};
enum { KERNEL, COPY, MEMSET };

struct buffer {
    struct buffer *next;
    size_t valid;
    _Alignas(8) uint8_t bytes[BUFFER_SIZE];
};

static struct {
    struct cupti cupti;
    void *subscriber;
    int (*driver_get_version)(int *version);
    pid_t process; /* a forked child has no CUDA, and must leave its parent's alone */
    atomic_bool active;
    pthread_t writer;
    pthread_mutex_t lock; /* held to move a buffer, never longer */
    pthread_cond_t wake;
    struct buffer *idle, *first, **last; /* zeroed ones; those to be written, oldest first */
    int buffers;
    bool ending;
    size_t dropped;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool running(void) {
    return atomic_load_explicit(&self.active, memory_order_acquire) && self.process == getpid();
}

static void give_buffer(uint8_t **bytes, size_t *size, size_t *most_records) {
    pthread_mutex_lock(&self.lock);
    struct buffer *buffer = self.idle;
    bool more = buffer == NULL && self.buffers < MOST_BUFFERS;
    if (buffer != NULL)
        self.idle = buffer->next;
    self.buffers += more;
    pthread_mutex_unlock(&self.lock);
    if (more)
        buffer = calloc(1, sizeof *buffer);
    *bytes = buffer != NULL ? buffer->bytes : NULL; /* without one CUPTI counts what it drops */
    *size = buffer != NULL ? BUFFER_SIZE : 0;
    *most_records = 0;
}

static void take_buffer(void *context, uint32_t stream, uint8_t *bytes, size_t size, size_t valid) {
    (void)context, (void)stream, (void)size;
    struct buffer *buffer = (struct buffer *)(void *)(bytes - offsetof(struct buffer, bytes));
    buffer->valid = valid;
    buffer->next = NULL;
    pthread_mutex_lock(&self.lock);
    *self.last = buffer;
    self.last = &buffer->next;
    pthread_mutex_unlock(&self.lock);
}

static void put(struct activity_slot *slot, uint64_t begin, uint64_t end, const char *name) {
    /* What had not ended when a buffer was forced out has no end. */
    if (begin == 0 || end < begin)
        return;
    slot->begin_ns = (int64_t)begin;
    slot->end_ns = (int64_t)end;
    devices_seen(slot->device);
    const struct spool_text text = {offsetof(struct activity_slot, name), name};
    spool_put(SPOOL_ACTIVITY, slot, &text, 1);
}

/* What the records of all kinds tell, each at places of its own. */
#define TAKE(slot, record)                                                                                   \
    ((slot).correlation = (record)->correlation, (slot).graph = (record)->graph,                             \
     (slot).context = (record)->context, (slot).stream = (record)->stream,                                   \
     (slot).device = (uint16_t)(record)->device)

static void put_record(const void *record) {
    const struct activity_kernel *kernel = record;
    const struct activity_copy *copy = record;
    const struct activity_copy_peer *between = record;
    const struct activity_memset *fill = record;
    struct activity_slot slot = {.bytes = SPOOL_UNKNOWN, .peer = SPOOL_UNKNOWN};
    switch (kernel->kind) {
    case ACTIVITY_KERNEL:
        slot.kind = KERNEL;
        TAKE(slot, kernel);
        put(&slot, kernel->begin, kernel->end, names_of_kernel(kernel->name));
        break;
    case ACTIVITY_COPY:
        slot.kind = COPY, slot.copy_kind = copy->copy_kind, slot.bytes = (int64_t)copy->bytes;
        TAKE(slot, copy);
        put(&slot, copy->begin, copy->end, names_of_copy(copy->copy_kind));
        break;
    case ACTIVITY_COPY_PEER:
        slot.kind = COPY, slot.copy_kind = between->copy_kind, slot.bytes = (int64_t)between->bytes;
        TAKE(slot, between);
        slot.peer = (int32_t)(between->device == between->source ? between->target : between->source);
        put(&slot, between->begin, between->end, names_of_copy(between->copy_kind));
        break;
    case ACTIVITY_MEMSET:
        slot.kind = MEMSET, slot.bytes = (int64_t)fill->bytes;
        TAKE(slot, fill);
        put(&slot, fill->begin, fill->end, "Memset");
        break;
    default:
        break;
    }
}

/* Writes what is in the buffers that came back, and has them zeroed for CUPTI to take again. */
static void write_buffers(void) {
    pthread_mutex_lock(&self.lock);
    struct buffer *buffer = self.first;
    self.first = NULL;
    self.last = &self.first;
    pthread_mutex_unlock(&self.lock);
    while (buffer != NULL) {
        struct buffer *next = buffer->next;
        void *record = NULL;
        while (self.cupti.get_next_record(buffer->bytes, buffer->valid, &record) == CUPTI_SUCCESS)
            put_record(record);
        memset(buffer->bytes, 0, buffer->valid);
        pthread_mutex_lock(&self.lock);
        buffer->next = self.idle;
        self.idle = buffer;
        pthread_mutex_unlock(&self.lock);
        buffer = next;
    }
}

/* Tells, in JSON, whether this process's devices are recorded, by which CUPTI, and how much was dropped. */
static void tell(uint32_t version, const char *why_not) {
    char json[512];
    int length = snprintf(json, sizeof json, "{\"cupti\": %u, \"dropped\": %zu, \"why_not\": \"", version,
                          self.dropped);
    for (const char *c = why_not; *c != 0 && length < (int)sizeof json - 4; c++)
        if (*c >= ' ' && *c != '"' && *c != '\\')
            json[length++] = *c;
    memcpy(json + length, "\"}", 3);
    spool_fact("kernels:process", json);
}

static void tell_dropped(void) {
    size_t dropped = 0;
    if (self.cupti.get_dropped(NULL, 0, &dropped) != CUPTI_SUCCESS || dropped == 0)
        return;
    self.dropped += dropped;
    uint32_t version = 0;
    self.cupti.get_version(&version);
    tell(version, "");
}

static void *write_on(void *unused) {
    (void)unused;
    bool ending = false;
    while (!ending) {
        int64_t until = spool_now() + FLUSH_NS;
        struct timespec time = {until / 1000000000, until % 1000000000};
        pthread_mutex_lock(&self.lock);
        while (!self.ending && pthread_cond_timedwait(&self.wake, &self.lock, &time) == 0)
            ;
        ending = self.ending;
        pthread_mutex_unlock(&self.lock);
        self.cupti.flush_all(ending ? FLUSH_FORCED : 0);
        write_buffers();
        tell_dropped();
    }
    return NULL;
}

/* Lets the writer write what is left, where a process ends by itself. */
static void end(void) {
    if (!running())
        return;
    pthread_mutex_lock(&self.lock);
    self.ending = true;
    pthread_cond_signal(&self.wake);
    pthread_mutex_unlock(&self.lock);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S; /* the driver may be in no state to answer */
    pthread_timedjoin_np(self.writer, NULL, &until);
    atomic_store(&self.active, false);
}

static bool start_writer(void) {
    self.last = &self.first;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&self.wake, &monotonic);
    sigset_t all, before;
    sigfillset(&all); /* signals are the engine's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&self.writer, NULL, write_on, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

static uint64_t now(void) {
    return (uint64_t)spool_now();
}

static _Thread_local struct {
    bool asking;
    uint32_t correlation;
} position;

static void called(void *data, int domain, uint32_t call, const void *about) {
    (void)data, (void)domain, (void)call;
    const struct callback_call *at = about;
    if (position.asking && at->site == SITE_ENTER)
        position.correlation = at->correlation;
}

/* Not before somebody asks: every launch is a little dearer from then on. */
static void watch_calls(void) {
    self.cupti.enable_callback(1, self.subscriber, DOMAIN_DRIVER, CALL_DRIVER_GET_VERSION);
}

/* How far this process is with calling CUDA: what it launches from now on has a correlation id that is
 * greater. 0 where its devices are not recorded.
 *
 * CUPTI tells the number of a call only in a callback, so a call that costs next to nothing is made. */
__attribute__((visibility("default"))) uint32_t bubblescope_position(void) {
    static pthread_once_t watched = PTHREAD_ONCE_INIT;
    if (!running())
        return 0;
    pthread_once(&watched, watch_calls);
    int version;
    position.asking = true;
    position.correlation = 0;
    self.driver_get_version(&version);
    position.asking = false;
    return position.correlation;
}

/* Begins to record; NULL, or why that cannot be. */
static const char *begin(uint32_t *version) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void *get_version = driver != NULL ? dlsym(driver, "cuDriverGetVersion") : NULL;
    int driver_version = 0;
    memcpy(&self.driver_get_version, &get_version, sizeof get_version);
    if (get_version == NULL || self.driver_get_version(&driver_version) != 0)
        return "the CUDA driver does not tell its version";
    const char *why_not = cupti_open(&self.cupti, driver_version);
    if (why_not != NULL)
        return why_not;
    const struct cupti *cupti = &self.cupti;
    cupti->get_version(version);
    int result = cupti->subscribe(&self.subscriber, called, NULL);
    if (result == CUPTI_MULTIPLE_SUBSCRIBERS)
        return "another profiler holds CUPTI";
    uint8_t yes = 1;
    size_t size = sizeof yes;
    cupti->set_attribute(ATTRIBUTE_ZEROED_BUFFERS, &size, &yes);
    static const int kinds[] = {ACTIVITY_KERNEL, ACTIVITY_COPY, ACTIVITY_COPY_PEER, ACTIVITY_MEMSET};
    if (result == CUPTI_SUCCESS)
        result = cupti->register_timestamp_callback(now);
    if (result == CUPTI_SUCCESS)
        result = cupti->register_callbacks(give_buffer, take_buffer);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && result == CUPTI_SUCCESS; i++)
        result = cupti->enable(kinds[i]);
    if (result != CUPTI_SUCCESS && cupti->get_result_string(result, &why_not) != CUPTI_SUCCESS)
        why_not = "CUPTI failed for a reason that it has no words for";
    return why_not;
}

__attribute__((visibility("default"))) int InitializeInjection(void) {
    if (self.process == getpid() || !spool_start())
        return 1;
    self.process = getpid();
    devices_start();
    uint32_t version = 0;
    const char *why_not = begin(&version);
    if (why_not == NULL && !start_writer())
        why_not = "no thread could be started";
    if (why_not == NULL) {
        atomic_store_explicit(&self.active, true, memory_order_release);
        atexit(end);
    }
    tell(version, why_not != NULL ? why_not : "");
    return 1;
}
