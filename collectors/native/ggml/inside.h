/* A program that ggml is linked into: nothing of ours can be called in the place of a function of ggml's own.
 *
 * Where the program's symbol table is there, the devices are found by it, and what calls through their
 * tables is seen all the same: what a backend computes and copies, and from before that the inputs of its
 * graph. No code is changed. */
#ifndef BUBBLESCOPE_GGML_INSIDE_H
#define BUBBLESCOPE_GGML_INSIDE_H

#include "ggml/devices.h"

/* Has the tables changed when the program opens a model, if it is one that ggml is linked into. */
void inside_begin(void);

/* Whether that has happened. */
bool ggml_is_inside(void);

/* A scheduler has split a graph, a part of which is for this device. */
void inside_part(struct device *device, ggml_object part);

/* A device is about to compute a part of the graph of a ubatch. */
void inside_computes(void);

/* A scheduler has a device tell when it is done with a part. */
void inside_event(void);

#endif
