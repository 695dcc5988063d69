/* Which devices a process works on: told once each, as facts `kernels:device:N`. */
#ifndef BUBBLESCOPE_CUPTI_DEVICES_H
#define BUBBLESCOPE_CUPTI_DEVICES_H

#include <stdint.h>

void devices_start(void);

/* Work was seen on the device of this number in the process; to be called from one thread only. */
void devices_seen(uint16_t number);

#endif
