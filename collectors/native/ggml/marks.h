/* Points in the queue of an asynchronous device, and the spans that lie between two of them.
 *
 * A call that computes or copies returns before the device has begun. So an event of the device's own
 * kind is put into its queue before and after the work, and a thread of ours, one per device, finds out
 * when they happened. The engine's threads never wait. */
#ifndef BUBBLESCOPE_GGML_MARKS_H
#define BUBBLESCOPE_GGML_MARKS_H

#include "ggml/devices.h"

struct mark;

/* Whether points in the queue of a stage's device can be marked; false where only the host's calls tell
 * times. */
bool marks_work(struct device *device);

/* Puts a mark into the queue of a backend; NULL if there are too many in it. */
struct mark *mark_here(struct device *device, ggml_object backend);

/* Writes the span, once both marks have happened, with their times. `place` is where it was opened, if
 * it was. Both marks are given back; where one is NULL the span is left out and counted. */
void span_between(struct device *device, struct mark *begin, struct mark *end,
                  const struct spool_span *span, struct spool_place place);

/* Gives back a mark that no span needs. */
void mark_unused(struct device *device, struct mark *mark);

#endif
