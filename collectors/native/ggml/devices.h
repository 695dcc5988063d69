/* The devices that ggml uses in this process, and the stages of the pipeline that they are. */
#ifndef BUBBLESCOPE_GGML_DEVICES_H
#define BUBBLESCOPE_GGML_DEVICES_H

#include "ggml/api.h"
#include "spool.h"

enum { MOST_DEVICES = 64, NO_STAGE = -1 };

/* How the times of a device's work are known: from events whose time CUDA tells, from events that a
 * thread of ours waits for, or only from calls of the host. */
enum device_times { TIMES_OF_CALLS, TIMES_OF_EVENTS, TIMES_OF_CUDA };

/* What ggml's function tables held before ours; NULL where a device has no such function. The slots of
 * all backends of one device are the same, so that they are kept once. */
struct device_functions {
    void (*set)(ggml_object backend, ggml_object tensor, const void *data, size_t offset, size_t size);
    void (*get)(ggml_object backend, ggml_object tensor, void *data, size_t offset, size_t size);
    bool (*copy)(ggml_object source, ggml_object target, ggml_object from, ggml_object to);
    void (*synchronize)(ggml_object backend);
    int (*compute)(ggml_object backend, ggml_object graph);
    void (*record)(ggml_object backend, ggml_object event);
    ggml_object (*event_new)(ggml_object device);
    void (*event_synchronize)(ggml_object device, ggml_object event);
    ggml_object (*init)(ggml_object device, const char *parameters);
    bool (*supports)(ggml_object device, ggml_object node);
    void (*optimize)(ggml_object backend, ggml_object split, void *parameters);
};

struct mark_queue;

/* sends_only: its calls return when a message is sent (RPC); reads: the
 * next that waits also waits for a result. forward: the split that a device without
 * events works on, while `forward_place` has a file. number: as the spool numbers stages; position: in the pipeline; NO_STAGE both until it is declared.
 * asked: whether it is known how its times are. free_since: when a device without events was last done with a split; 0 if never. */
struct device {
    ggml_object handle;
    const char *name;
    bool is_host, sends_only, reads, asked;
    enum device_times times;
    struct device_functions real;
    int number, position;
    int layer_begin, layer_end;
    int64_t free_since;
    struct spool_span forward;
    struct spool_place forward_place;
    struct mark_queue *queue;
};

static inline bool is_stage(const struct device *device) {
    return device != NULL && device->number != NO_STAGE;
}

/* The device, made known if it is not; NULL if there are too many or ggml cannot be asked. */
struct device *device_of(ggml_object handle);
struct device *device_of_backend(ggml_object backend);

/* The device that was declared as this stage, first if `position` is 0; NULL if there is none. */
struct device *device_at(int position);
struct device *last_device(void);

/* Finds out which device holds which layer of a graph that was allocated, and declares as stages those
 * that do. Once: what a first model is split into counts. */
void stages_from_graph(ggml_object scheduler, ggml_object graph);

/* The same where the scheduler cannot be asked, from the parts that it splits a graph into, in their order:
 * a graph is split; this is a part of it, for a device; what it was split into counts. */
void split_begins(void);
void split_has(struct device *device, ggml_object part);
int stages_from_split(void);

/* The device that computes the logits; NULL if that is not known. */
const struct device *output_device(void);

/* Tells facts about all devices known. */
void tell_devices(void);

#endif
