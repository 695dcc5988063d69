/* A function of ours in the place of one of ggml or llama.cpp, which it calls. */
#ifndef BUBBLESCOPE_GGML_STAND_IN_H
#define BUBBLESCOPE_GGML_STAND_IN_H

#include "ggml/symbols.h"

#include <stddef.h>

#define OURS __attribute__((visibility("default")))
/* The function that ours stands in for, found when it is first needed. */
#define REAL(name) \
    static __typeof__(name) *real; \
    if (real == NULL) \
        *(void **)(void *)&real = symbol_find(#name)

#endif
