/* What the function tables of backends and of buffers have in common. */
#ifndef BUBBLESCOPE_GGML_FORWARD_H
#define BUBBLESCOPE_GGML_FORWARD_H

#include "ggml/devices.h"

/* A wait of the host begins and ends; a wait inside another is part of it. `device` is the one waited
 * for, NULL for all. */
void sync_begin(void);
void sync_end(const struct device *device, int64_t begin_ns);

/* The first and the layer after the last that a graph's nodes tell; -1 if they tell none. */
void layers_of_split(ggml_object graph, int16_t *begin, int16_t *end);

/* A device without events is done with its split: somebody has its result. */
void forward_is_over(struct device *device);

/* Conversions between addresses of functions and of data, which C leaves to the machine. */
#define ADDRESS(function) (__extension__(void *)(function))

/* Puts `ours` into a slot of a table and what was there into `kept`, unless it is empty or done. */
void table_replace(void **slot, void *kept, void *ours);

#endif
