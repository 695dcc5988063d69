/* What a device was asked to do, for tools that see its kernels: our own, and those that know NVTX. */
#ifndef BUBBLESCOPE_GGML_LAUNCHES_H
#define BUBBLESCOPE_GGML_LAUNCHES_H

#include "spool.h"

#include <stdint.h>

/* Between these two lie all launches of a span. Where kernels are recorded, the span is told to have launched
 * them; where a tool is attached that knows NVTX, a range of the span's name encloses them. `position` is
 * the stage's in the pipeline. */
uint32_t launches_begin(const struct spool_span *span, int position);
void launches_end(const struct spool_span *span, uint32_t before);

#endif
