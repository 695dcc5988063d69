#define _GNU_SOURCE
#include "ggml/marks.h"
#include "ggml/cuda_time.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_MARKS = 4096, MOST_PENDING = 2048 };
/* How often a CUDA device is asked whether an event has happened. */
enum { LOOK_US = 500 };
/* Over a wait that is longer it shows whether waiting takes the processor's time. */
static const int64_t LONG_WAIT_NS = 1000000;

/* An event of ggml: what its functions take is the address of `device`. CUDA's own stands in `context`. */
struct event {
    ggml_object device;
    void *context;
};

struct mark {
    struct event own;
    ggml_object event;
    struct mark *next_free;
};

struct pending {
    struct mark *begin, *end;
    struct spool_span span;
    struct spool_place place;
};

/* pending: a ring, from `first` on, filled by the engine's threads and emptied by ours. */
struct mark_queue {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct mark marks[MOST_MARKS], *free;
    int made;
    struct pending pending[MOST_PENDING];
    unsigned first, count;
    struct cuda_clock *clock;
};

static int64_t processor_ns(void) {
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return used.tv_sec * INT64_C(1000000000) + used.tv_nsec;
}

/* The calling thread only waits and looks at the clock, and should not do so late on a busy machine: where
 * that is allowed it goes before others. One that would keep a processor busy by waiting does not. */
static void set_urgent(bool urgent) {
    const struct sched_param first = {.sched_priority = urgent ? 1 : 0};
    (void)pthread_setschedparam(pthread_self(), urgent ? SCHED_RR : SCHED_OTHER, &first);
}

static int64_t time_of_event(struct device *device, struct mark *mark) {
    int64_t before_ns = spool_now(), used_ns = processor_ns();
    device->real.event_synchronize(device->handle, mark->event);
    int64_t now_ns = spool_now(), waited_ns = now_ns - before_ns;
    if (waited_ns > LONG_WAIT_NS && processor_ns() - used_ns > waited_ns / 2)
        set_urgent(false);
    return now_ns;
}

static int64_t time_of(struct device *device, struct mark *mark) {
    if (device->times == TIMES_OF_EVENTS)
        return time_of_event(device, mark);
    while (!cuda_event_happened(mark->own.context))
        usleep(LOOK_US);
    return cuda_event_time(device->queue->clock, mark->own.context);
}

static void give_back(struct mark_queue *queue, struct mark *mark) {
    if (mark == NULL)
        return;
    mark->next_free = queue->free;
    queue->free = mark;
}

static void *find_times(void *argument) {
    struct device *device = argument;
    struct mark_queue *queue = device->queue;
    if (queue->clock != NULL)
        cuda_enter(queue->clock);
    else
        set_urgent(true);
    for (;;) {
        pthread_mutex_lock(&queue->lock);
        while (queue->count == 0)
            pthread_cond_wait(&queue->more, &queue->lock);
        struct pending next = queue->pending[queue->first];
        pthread_mutex_unlock(&queue->lock);

        int64_t begin_ns = time_of(device, next.begin), end_ns = time_of(device, next.end);
        next.span.begin_ns = begin_ns;
        next.span.end_ns = begin_ns >= 0 && end_ns < begin_ns ? begin_ns : end_ns;
        if (next.place.file != NULL)
            spool_close_span(next.place, &next.span);
        else
            spool_put_span(&next.span);

        pthread_mutex_lock(&queue->lock);
        give_back(queue, next.begin);
        give_back(queue, next.end);
        queue->first = (queue->first + 1) % MOST_PENDING;
        __atomic_sub_fetch(&queue->count, 1, __ATOMIC_RELEASE);
        pthread_mutex_unlock(&queue->lock);
    }
    return NULL;
}

/* What the devices did last is known a moment after the program has waited for it. */
__attribute__((destructor)) static void wait_for_the_last(void) {
    for (int i = 0; i < 20; i++) {
        bool pending = false;
        for (int position = 0; device_at(position) != NULL; position++) {
            const struct mark_queue *queue = device_at(position)->queue;
            pending = pending || (queue != NULL && __atomic_load_n(&queue->count, __ATOMIC_ACQUIRE) > 0);
        }
        if (!pending)
            return;
        usleep(1000);
    }
}

/* The program's signals are not for our thread. */
static bool start_thread(struct device *device) {
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, NULL, find_times, device) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        pthread_detach(thread);
    return started;
}

static bool is_of(struct device *device, const char *registry) {
    const struct ggml_api *api = ggml_api();
    if (api->ggml_backend_dev_backend_reg == NULL || api->ggml_backend_reg_name == NULL)
        return false;
    const char *name = api->ggml_backend_reg_name(api->ggml_backend_dev_backend_reg(device->handle));
    return name != NULL && strcmp(name, registry) == 0;
}

static void tell_uuid(const struct device *device) {
    char name[64], uuid[CUDA_UUID], json[CUDA_UUID + 2];
    if (!cuda_uuid_of_current_device(uuid))
        return;
    snprintf(name, sizeof name, "uuid:%d:%d", device->position, device->position);
    snprintf(json, sizeof json, "\"%s\"", uuid);
    spool_fact(name, json);
}

static void begin_marks(struct device *device) {
    /* Vulkan's events are not to be waited for by another thread, and a client's tell nothing. */
    if (device->is_host || device->sends_only || device->real.record == NULL || device->real.event_new == NULL ||
        device->real.event_synchronize == NULL || is_of(device, "Vulkan"))
        return;
    struct mark_queue *queue = calloc(1, sizeof *queue);
    if (queue == NULL)
        return;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->more, NULL);
    device->queue = queue;
    /* To make an event, ggml makes its device the current one. */
    bool is_cuda = is_of(device, "CUDA");
    if (is_cuda && device->real.event_new(device->handle) != NULL)
        queue->clock = cuda_clock_of_current_device();
    if (queue->clock != NULL)
        tell_uuid(device);
    if ((!is_cuda || queue->clock != NULL) && start_thread(device))
        device->times = is_cuda ? TIMES_OF_CUDA : TIMES_OF_EVENTS;
    tell_devices();
}

bool marks_work(struct device *device) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (__atomic_load_n(&device->asked, __ATOMIC_ACQUIRE))
        return device->times != TIMES_OF_CALLS;
    if (device->position == NO_STAGE)
        return false;
    pthread_mutex_lock(&lock);
    if (!device->asked) {
        begin_marks(device);
        __atomic_store_n(&device->asked, true, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return device->times != TIMES_OF_CALLS;
}

/* A mark that is in no queue; NULL if there are too many. */
static struct mark *spare(struct device *device) {
    struct mark_queue *queue = device->queue;
    pthread_mutex_lock(&queue->lock);
    struct mark *mark = queue->free;
    bool is_new = mark == NULL && queue->made < MOST_MARKS;
    if (mark != NULL)
        queue->free = mark->next_free;
    else if (is_new)
        mark = &queue->marks[queue->made++];
    pthread_mutex_unlock(&queue->lock);
    if (!is_new)
        return mark;
    if (device->times == TIMES_OF_CUDA) {
        mark->own = (struct event){device->handle, cuda_event_new(queue->clock)};
        mark->event = mark->own.context != NULL ? &mark->own : NULL;
    } else {
        mark->event = device->real.event_new(device->handle);
    }
    return mark->event != NULL ? mark : NULL;
}

struct mark *mark_here(struct device *device, ggml_object backend) {
    struct mark *mark = spare(device);
    if (mark != NULL)
        device->real.record(backend, mark->event);
    return mark;
}

void span_between(struct device *device, struct mark *begin, struct mark *end,
                  const struct spool_span *span, struct spool_place place) {
    struct mark_queue *queue = device->queue;
    pthread_mutex_lock(&queue->lock);
    bool kept = begin != NULL && end != NULL && queue->count < MOST_PENDING;
    if (kept) {
        unsigned at = (queue->first + queue->count++) % MOST_PENDING;
        queue->pending[at] = (struct pending){begin, end, *span, place};
        pthread_cond_signal(&queue->more);
    } else {
        give_back(queue, begin);
        give_back(queue, end);
    }
    pthread_mutex_unlock(&queue->lock);
    if (kept)
        return;
    /* Without an end it cannot be, so that it is counted and leaves no open span behind. */
    struct spool_span without = *span;
    without.end_ns = SPOOL_UNKNOWN;
    if (place.file != NULL)
        spool_close_span(place, &without);
    else
        spool_put_span(&without);
}

void mark_unused(struct device *device, struct mark *mark) {
    pthread_mutex_lock(&device->queue->lock);
    give_back(device->queue, mark);
    pthread_mutex_unlock(&device->queue->lock);
}
