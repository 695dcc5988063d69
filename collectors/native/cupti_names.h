/* What activities are called in the recording. */
#ifndef BUBBLESCOPE_CUPTI_NAMES_H
#define BUBBLESCOPE_CUPTI_NAMES_H

#include <stdint.h>

/* A kernel's name as a person reads it, valid for ever; to be called from one thread only. */
const char *names_of_kernel(const char *mangled);

/* What a copy is called, by where it goes from and to. */
const char *names_of_copy(uint8_t copy_kind);

#endif
