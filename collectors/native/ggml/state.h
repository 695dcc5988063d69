/* Sequences whose state (the KV cache above all) a program copies to host memory or back. */
#ifndef BUBBLESCOPE_GGML_STATE_H
#define BUBBLESCOPE_GGML_STATE_H

#include <stdbool.h>

/* Whether the calling thread copies a state: what it then reads from devices belongs to no ubatch. */
bool state_is_copied(void);

/* A decode begins: what this thread asked for before has led to no copy. */
void state_forget(void);

#endif
